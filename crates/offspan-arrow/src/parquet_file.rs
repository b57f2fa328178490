//! Parquet: row groups of compressed pages, decoded a few rows at a time.

use std::fs::File;

use arrow_schema::SchemaRef;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Compression;

use crate::Problem;
use crate::table::OnBatch;

pub(crate) const WHAT: &str = "a Parquet file";
pub(crate) const MAGIC: &[u8] = b"PAR1";
pub(crate) const ENCRYPTED: &[u8] = b"PARE";
/// Decoded numbers that are in memory at a time, about.
const BATCH_BYTES: u64 = 8 << 20;

pub(crate) struct ParquetFile {
    file: File,
    metadata: ArrowReaderMetadata,
}

impl ParquetFile {
    pub(crate) fn open(file: File) -> Result<Self, Problem> {
        // The types of Parquet's own schema tell all that is needed; what Arrow's writer adds could contradict it.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::load(&file, options).map_err(Problem::parquet)?;
        Ok(ParquetFile { file, metadata })
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        self.metadata.schema().clone()
    }

    pub(crate) fn rows(&self) -> u64 {
        let rows = self.metadata.metadata().file_metadata().num_rows();
        u64::try_from(rows).unwrap_or_default()
    }

    /// Calls `each` with the columns at these positions, batch after batch.
    pub(crate) fn each_batch(
        &self,
        positions: &[usize],
        each: &mut OnBatch<'_>,
    ) -> Result<(), Problem> {
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), positions.iter().copied());
        let batch_rows = self.rows_at_a_time(&mask)?;
        let file = self.file.try_clone().map_err(Problem::Read)?;
        let reader =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
                .with_projection(mask)
                .with_batch_size(batch_rows)
                .build()
                .map_err(Problem::parquet)?;
        let mut start = 0;
        for batch in reader {
            let batch = batch.map_err(|error| Problem::arrow(WHAT, error))?;
            each(start, &batch)?;
            start += batch.num_rows() as u64;
        }
        if start == self.rows() {
            return Ok(());
        }
        Err(Problem::malformed(WHAT, format!("it declares {} rows and has {start}", self.rows())))
    }

    /// How many rows to decode at a time, after a look at how they are compressed.
    fn rows_at_a_time(&self, mask: &ProjectionMask) -> Result<usize, Problem> {
        let (mut bytes, mut rows) = (0u64, 0u64);
        for group in self.metadata.metadata().row_groups() {
            rows = rows.saturating_add(u64::try_from(group.num_rows()).unwrap_or_default());
            for (_, chunk) in
                group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf))
            {
                let size = u64::try_from(chunk.uncompressed_size()).unwrap_or_default();
                bytes = bytes.saturating_add(size);
                let codec = chunk.compression();
                let unread = match codec {
                    Compression::BROTLI(_) => "brotli",
                    Compression::LZO => "lzo",
                    _ => continue,
                };
                return Err(Problem::Type {
                    column: chunk.column_path().parts().first().cloned().unwrap_or_default(),
                    expected: "no compression, snappy, gzip, lz4 or zstd",
                    got: format!("compressed with {unread}"),
                });
            }
        }
        let row_bytes = (bytes / rows.max(1)).max(1);
        let batch = (BATCH_BYTES / row_bytes).clamp(1, 8192);
        Ok(batch as usize)
    }
}
