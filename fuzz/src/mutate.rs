//! Changes of inputs: of any bytes, and of safetensors files that keep them safetensors files, since plain changes would hardly
//! ever get behind their header, and never behind the checksum.

use std::collections::BTreeMap;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_128;

const PREFIX: &str = "xxh3-128:";
const DIGITS: usize = 32;

/// The same file with the right checksum, if it has one.
#[must_use]
pub fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = bytes.windows(PREFIX.len()).position(|part| part == PREFIX.as_bytes());
    if let Some(start) = at.map(|at| at + PREFIX.len())
        && bytes
            .get(start..start + DIGITS)
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    {
        bytes[start..start + DIGITS].fill(b'0');
        let checksum = format!("{:032x}", xxh3_128(&bytes));
        bytes[start..start + DIGITS].copy_from_slice(checksum.as_bytes());
    }
    bytes
}

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }
}

type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// A safetensors file in parts.
struct Parts {
    metadata: BTreeMap<String, String>,
    tensors: Tensors,
}

impl Parts {
    fn of(bytes: &[u8]) -> Option<Self> {
        let (_, header) = SafeTensors::read_metadata(bytes).ok()?;
        let metadata = header.metadata().clone().unwrap_or_default().into_iter().collect();
        let tensors = SafeTensors::deserialize(bytes).ok()?.tensors().into_iter();
        let tensors = tensors.map(|(name, view)| {
            (name, (view.dtype(), view.shape().to_vec(), view.data().to_vec()))
        });
        Some(Parts { metadata, tensors: tensors.collect() })
    }

    fn to_bytes(&self) -> Option<Vec<u8>> {
        let views = self.tensors.iter().map(|(name, (dtype, shape, data))| {
            TensorView::new(*dtype, shape.clone(), data).ok().map(|view| (name, view))
        });
        let views: Vec<_> = views.collect::<Option<_>>()?;
        safetensors::serialize(views, Some(self.metadata.clone().into_iter().collect())).ok()
    }
}

/// Changes one thing in a safetensors file; none if the bytes are no such file, or nothing can be changed so.
#[must_use]
pub fn mutated(bytes: &[u8], seed: u64) -> Option<Vec<u8>> {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut parts = Parts::of(bytes)?;
    for _ in 0..1 + dice.below(3) {
        match dice.below(4) {
            0 | 1 => change_document(&mut parts.metadata, &mut dice),
            2 => change_numbers(&mut parts.tensors, &mut dice),
            _ => change_shape(&mut parts.tensors, &mut dice),
        }
    }
    parts.to_bytes().map(|bytes| repaired(&bytes))
}

/// Changes some bytes: one or a few, a stretch that is lost or stands twice, or the end.
#[must_use]
pub fn with_changed_bytes(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + dice.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = dice.below(bytes.len());
        let stretch = at..bytes.len().min(at + 1 + dice.below(8));
        match dice.below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(stretch)),
            2 => {
                let copy = bytes[stretch].to_vec();
                bytes.splice(at..at, copy);
            }
            3 => bytes[stretch].fill(0xff),
            4 => bytes[at] = 0,
            5 => bytes[at] = bytes[at].wrapping_add(1),
            6 => bytes[at] ^= 1 << dice.below(8),
            _ => bytes[at] = dice.next() as u8,
        }
    }
    bytes
}

const NUMBERS: [f64; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    1e-300,
    1e300,
    5e-324,
    -1e38,
    255.0,
    65536.0,
    4_294_967_296.0,
    1e15,
];

fn change_document(metadata: &mut BTreeMap<String, String>, dice: &mut Dice) {
    let keys: Vec<String> = metadata.keys().cloned().collect();
    let Some(key) = dice.pick(&keys) else { return };
    let Ok(mut json) = serde_json::from_str::<Value>(&metadata[key]) else { return };
    change_value(&mut json, dice);
    metadata.insert(key.clone(), json.to_string());
}

/// Walks down to a value and changes it.
fn change_value(value: &mut Value, dice: &mut Dice) {
    match value {
        Value::Object(map) if !map.is_empty() && dice.below(12) > 0 => {
            let keys: Vec<String> = map.keys().cloned().collect();
            let key = &keys[dice.below(keys.len())];
            match dice.below(20) {
                0 => drop(map.remove(key)),
                1 => drop(map.insert(format!("{key}x"), Value::Null)),
                _ => {
                    if let Some(inner) = map.get_mut(key) {
                        change_value(inner, dice);
                    }
                }
            }
        }
        Value::Array(list) if !list.is_empty() && dice.below(8) > 0 => match dice.below(6) {
            0 => drop(list.pop()),
            1 => {
                let copy = list[dice.below(list.len())].clone();
                list.push(copy);
            }
            _ => {
                let at = dice.below(list.len());
                change_value(&mut list[at], dice);
            }
        },
        Value::Number(number) => {
            let old = number.as_f64().unwrap_or_default();
            let new = match dice.below(5) {
                0 => old + 1.0,
                1 => old - 1.0,
                2 => old * 2.0,
                3 => -old,
                _ => NUMBERS[dice.below(NUMBERS.len())],
            };
            let whole = new.fract() == 0.0 && new.abs() < 1e15;
            *value = if whole { (new as i64).into() } else { new.into() };
        }
        Value::Bool(bit) => *bit = !*bit,
        other => {
            *other = match dice.below(5) {
                0 => Value::Null,
                1 => 0.into(),
                2 => Value::String(String::new()),
                3 => Value::Array(Vec::new()),
                _ => Value::String("auto".to_owned()),
            };
        }
    }
}

fn pick_tensor<'a>(
    tensors: &'a mut Tensors,
    dice: &mut Dice,
) -> Option<&'a mut (Dtype, Vec<usize>, Vec<u8>)> {
    let names: Vec<String> = tensors.keys().cloned().collect();
    tensors.get_mut(dice.pick(&names)?)
}

fn change_numbers(tensors: &mut Tensors, dice: &mut Dice) {
    let Some((dtype, _, data)) = pick_tensor(tensors, dice) else { return };
    let size = match dtype {
        Dtype::F64 | Dtype::I64 | Dtype::U64 => 8,
        Dtype::F32 | Dtype::I32 | Dtype::U32 => 4,
        Dtype::F16 | Dtype::BF16 | Dtype::I16 | Dtype::U16 => 2,
        _ => 1,
    };
    if data.len() < size {
        return;
    }
    let at = dice.below(data.len() / size) * size;
    let number = match dice.below(6) {
        0 => f64::NAN,
        1 => f64::INFINITY,
        _ => NUMBERS[dice.below(NUMBERS.len())],
    };
    match dtype {
        Dtype::F64 => data[at..at + 8].copy_from_slice(&number.to_le_bytes()),
        Dtype::F32 => data[at..at + 4].copy_from_slice(&(number as f32).to_le_bytes()),
        _ => {
            for byte in &mut data[at..at + size] {
                *byte = dice.next() as u8;
            }
        }
    }
}

fn change_shape(tensors: &mut Tensors, dice: &mut Dice) {
    if dice.below(4) == 0 {
        let names: Vec<String> = tensors.keys().cloned().collect();
        let Some(name) = dice.pick(&names) else { return };
        let Some(tensor) = tensors.remove(name) else { return };
        if dice.below(2) == 0 {
            tensors.insert(format!("{name}x"), tensor);
        }
        return;
    }
    let Some((_, shape, data)) = pick_tensor(tensors, dice) else { return };
    let Some(first) = shape.first().copied().filter(|&first| first > 0) else { return };
    let row = data.len() / first;
    match dice.below(4) {
        // One row more or less.
        0 if first > 1 => {
            shape[0] -= 1;
            data.truncate(row * shape[0]);
        }
        1 => {
            shape[0] += 1;
            data.extend_from_within(..row);
        }
        2 => shape.reverse(),
        _ => shape.insert(dice.below(shape.len() + 1), 1),
    }
}
