import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** Puts a file as the body of pages, with a length and in chunks, and prints the status and the length of each. */
public class Put {
    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        Path file = Path.of(arguments[1]);
        for (String kind : new String[] {"length", "chunks"}) {
            String url = URLEncoder.encode("https://java.example/" + kind, StandardCharsets.UTF_8);
            HttpRequest.BodyPublisher body = BodyPublishers.ofFile(file);
            if (kind.equals("chunks")) {
                body = BodyPublishers.fromPublisher(body);
            }
            URI put = URI.create(arguments[0] + "/v1/page?url=" + url);
            HttpRequest request = HttpRequest.newBuilder(put).header("Content-Type", "text/html").PUT(body).build();
            int status = client.send(request, BodyHandlers.ofString()).statusCode();
            URI get = URI.create(arguments[0] + "/v1/page/body?url=" + url);
            HttpRequest question = HttpRequest.newBuilder(get).build();
            System.out.println(status + " " + client.send(question, BodyHandlers.ofByteArray()).body().length);
        }
    }
}
