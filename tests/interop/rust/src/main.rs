//! rskafka's partition clients: `interop BOOTSTRAP NAME` copies NAME-source to NAME-sink for ever, at least once. It
//! has no groups: where it was is what the last record of the sink says, which is read at the start.

use std::{collections::BTreeMap, env};

use chrono::Utc;
use rskafka::{
    client::{
        ClientBuilder,
        partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling},
    },
    record::Record,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().collect();
    let client = ClientBuilder::new(vec![arguments[1].clone()]).build().await?;
    let open = |suffix: &str| client.partition_client(format!("{}-{suffix}", arguments[2]), 0, UnknownTopicHandling::Retry);
    let (source, sink) = (open("source").await?, open("sink").await?);
    let mut offset = next_offset(&sink).await?;
    loop {
        let (records, _) = source.fetch_records(offset, 1..1_000_000, 500).await?;
        for found in records {
            let value = found.record.value;
            let record = Record { key: None, value, headers: BTreeMap::new(), timestamp: Utc::now() };
            sink.produce(vec![record], Compression::NoCompression).await?;
            offset = found.offset + 1;
        }
    }
}

/// The values are the offsets of the source.
async fn next_offset(sink: &PartitionClient) -> Result<i64, Box<dyn std::error::Error>> {
    let end = sink.get_offset(OffsetAt::Latest).await?;
    if end == 0 {
        return Ok(0);
    }
    let (records, _) = sink.fetch_records(end - 1, 1..1_000_000, 500).await?;
    let value = records.last().and_then(|found| found.record.value.clone()).ok_or("no record before the end")?;
    Ok(String::from_utf8(value)?.parse::<i64>()? + 1)
}
