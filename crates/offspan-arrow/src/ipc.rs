//! Arrow's own formats: a stream of messages, and a file, which is such a stream between two marks.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::root_as_message;
use arrow_schema::SchemaRef;

use crate::Problem;
use crate::table::OnBatch;

const WHAT: &str = "an Arrow file";
const MAGIC: &[u8] = b"ARROW1";
/// The mark, filled up to eight bytes.
const FILE_START: u64 = 8;
const CONTINUATION: [u8; 4] = [0xff; 4];
/// What ends a stream.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
/// No codec makes its input more than so many times as long.
const MOST_COMPRESSED: u64 = 1 << 16;

/// A stream of messages in a file.
pub(crate) struct IpcFile {
    file: File,
    /// Where the messages begin, and where they must have ended.
    start: u64,
    end: u64,
    schema: SchemaRef,
}

/// Reads the beginning of a file, which may be shorter than `out`.
pub(crate) fn read_up_to(mut file: &File, out: &mut [u8]) -> Result<usize, Problem> {
    file.seek(SeekFrom::Start(0)).map_err(Problem::Read)?;
    let mut got = 0;
    while got < out.len() {
        match file.read(&mut out[got..]).map_err(Problem::Read)? {
            0 => break,
            count => got += count,
        }
    }
    Ok(got)
}

impl IpcFile {
    pub(crate) fn open(file: File, length: u64, beginning: &[u8]) -> Result<Self, Problem> {
        let (start, end) = if beginning.starts_with(MAGIC) {
            (FILE_START, before_footer(&file, length)?)
        } else if beginning.starts_with(&CONTINUATION) {
            (0, length)
        } else {
            let reason = format!("it starts with {beginning:02x?}, not with PAR1 or ARROW1");
            return Err(Problem::malformed("a Parquet or Arrow file", reason));
        };
        let mut messages = Messages { file: &file, at: start, end };
        let mut decoder = StreamDecoder::new();
        let first = messages.next()?.ok_or_else(|| Problem::malformed(WHAT, "it has no schema"))?;
        decode(&mut decoder, first, &mut |_| Ok(()))?;
        decode(&mut decoder, END.to_vec(), &mut |_| Ok(()))?;
        let schema =
            decoder.schema().ok_or_else(|| Problem::malformed(WHAT, "it has no schema"))?;
        Ok(IpcFile { file, start, end, schema })
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Calls `each` with all columns, batch after batch.
    pub(crate) fn each_batch(&self, each: &mut OnBatch<'_>) -> Result<(), Problem> {
        let mut messages = Messages { file: &self.file, at: self.start, end: self.end };
        let mut decoder = StreamDecoder::new();
        let mut rows = 0;
        let mut on_batch = |batch: &_| {
            each(rows, batch)?;
            rows += batch.num_rows() as u64;
            Ok(())
        };
        while let Some(message) = messages.next()? {
            decode(&mut decoder, message, &mut on_batch)?;
        }
        // A message without a body is only acted on when the next one begins.
        decode(&mut decoder, END.to_vec(), &mut on_batch)
    }
}

fn decode(
    decoder: &mut StreamDecoder,
    message: Vec<u8>,
    on_batch: &mut dyn FnMut(&arrow_array::RecordBatch) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let mut bytes = Buffer::from_vec(message);
    while !bytes.is_empty() {
        if let Some(batch) =
            decoder.decode(&mut bytes).map_err(|error| Problem::arrow(WHAT, error))?
        {
            on_batch(&batch)?;
        }
    }
    Ok(())
}

/// Where the messages of a file end: before the footer, its length and the mark.
fn before_footer(mut file: &File, length: u64) -> Result<u64, Problem> {
    let truncated =
        || Problem::malformed(WHAT, "it does not end as it should; it is truncated or damaged");
    let tail = 4 + MAGIC.len() as u64;
    let at = length.checked_sub(tail).filter(|at| *at >= FILE_START).ok_or_else(truncated)?;
    let mut bytes = [0; 10];
    file.seek(SeekFrom::Start(at)).map_err(Problem::Read)?;
    file.read_exact(&mut bytes).map_err(Problem::Read)?;
    let [a, b, c, d, magic @ ..] = bytes;
    let footer = u64::from(u32::from_le_bytes([a, b, c, d]));
    match at.checked_sub(footer) {
        Some(end) if magic == MAGIC && end >= FILE_START => Ok(end),
        _ => Err(truncated()),
    }
}

/// The messages of a stream, each with its prefix and its body, none of them longer than the file.
struct Messages<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Messages<'_> {
    fn next(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        if self.at == self.end {
            return Ok(None);
        }
        let mut message = self.take(Vec::new(), 4)?;
        if message == CONTINUATION {
            message = self.take(message, 4)?;
        }
        let size = message.last_chunk().map_or(0, |size| u32::from_le_bytes(*size));
        if size == 0 {
            return Ok(None);
        }
        let prefix = message.len();
        message = self.take(message, u64::from(size))?;
        let header = root_as_message(&message[prefix..])
            .map_err(|error| Problem::malformed(WHAT, format!("a message of it: {error}")))?;
        let body = u64::try_from(header.bodyLength()).map_err(|_| {
            Problem::malformed(WHAT, "a message of it has a body of negative length")
        })?;
        let batch = header.header_as_record_batch();
        let batch = batch.or_else(|| header.header_as_dictionary_batch()?.data());
        let compressed: Vec<(i64, i64)> = match batch {
            Some(batch) if batch.compression().is_some() => {
                let buffers = batch.buffers().into_iter().flatten();
                buffers.map(|buffer| (buffer.offset(), buffer.length())).collect()
            }
            _ => Vec::new(),
        };
        let body_at = message.len();
        message = self.take(message, body)?;
        for (offset, length) in compressed {
            check_compressed(&message[body_at..], offset, length)?;
        }
        Ok(Some(message))
    }

    /// Appends so many bytes, if the file has them.
    fn take(&mut self, mut bytes: Vec<u8>, count: u64) -> Result<Vec<u8>, Problem> {
        let left = self.end.saturating_sub(self.at);
        if count > left {
            return Err(Problem::malformed(
                WHAT,
                format!(
                    "expected {count} more bytes at {}, got {left}; it is truncated or damaged",
                    self.at
                ),
            ));
        }
        let mut file = self.file;
        file.seek(SeekFrom::Start(self.at)).map_err(Problem::Read)?;
        file.take(count).read_to_end(&mut bytes).map_err(Problem::Read)?;
        self.at += count;
        Ok(bytes)
    }
}

/// A compressed buffer begins with the length that it will have, for which memory is asked.
fn check_compressed(body: &[u8], offset: i64, length: i64) -> Result<(), Problem> {
    let damaged = |reason: String| Problem::malformed(WHAT, reason);
    let part = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
    let part = part.and_then(|(offset, length)| body.get(offset..offset.checked_add(length)?));
    let Some(part) = part else {
        return Err(damaged(format!(
            "a buffer of {length} bytes at {offset} is not in its message"
        )));
    };
    let Some(declared) = part.first_chunk().map(|bytes| i64::from_le_bytes(*bytes)) else {
        return if part.is_empty() {
            Ok(())
        } else {
            Err(damaged("a buffer has no length".to_owned()))
        };
    };
    let most = (part.len() as u64).saturating_mul(MOST_COMPRESSED);
    // −1: it is not compressed.
    if declared == -1 || u64::try_from(declared).is_ok_and(|declared| declared <= most) {
        return Ok(());
    }
    Err(damaged(format!("a buffer of {length} bytes declares {declared} bytes when decompressed")))
}
