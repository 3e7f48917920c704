-- Questions to the Parquet files of `docstore export --format parquet`, in a folder: `duckdb < examples/duckdb_example.sql`
-- (`docstore sweep` and `docstore annotate links quality` fill the columns cluster and notes).

-- Which hosts have most pages that say nothing new?
select host, count(*) as pages, count(*) filter (verdict <> 'new') as duplicates
from 'parquet/*.parquet' group by host order by duplicates desc, host limit 5;

-- The longest text of each cluster, with its rank.
select url, notes['links']::json ->> 'rank' as rank, length(text) as characters
from 'parquet/*.parquet'
where text is not null
qualify row_number() over (partition by coalesce(cluster, url) order by length(text) desc, url) = 1
order by characters desc limit 5;
