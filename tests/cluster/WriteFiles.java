import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.RegionMetrics;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;

/** Writes the cells of a table to files; with `compact` all its files to one for each region. Thrift2 has no such call. */
public class WriteFiles {
    public static void main(String[] arguments) throws Exception {
        TableName table = TableName.valueOf(arguments[1]);
        try (Connection connection = ConnectionFactory.createConnection(HBaseConfiguration.create());
                Admin admin = connection.getAdmin()) {
            admin.flush(table);
            if (arguments[0].equals("compact")) {
                admin.majorCompact(table);
                while (mostFiles(admin, table) > 1) {
                    Thread.sleep(100);
                }
            }
        }
    }

    static int mostFiles(Admin admin, TableName table) throws Exception {
        int most = 0;
        for (ServerName server : admin.getRegionServers()) {
            for (RegionMetrics region : admin.getRegionMetrics(server, table)) {
                most = Math.max(most, region.getStoreFileCount());
            }
        }
        return most;
    }
}
