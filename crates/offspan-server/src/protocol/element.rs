//! The number types that tensors may have.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// A type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    F16,
    Bf16,
    F32,
    F64,
}

/// In words, for messages.
pub(crate) const KNOWN: &str = "FP16, BF16, FP32 or FP64";

impl Element {
    pub(crate) const ALL: [Element; 4] = [Element::F16, Element::Bf16, Element::F32, Element::F64];

    /// As the protocol calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Element::F16 => "FP16",
            Element::Bf16 => "BF16",
            Element::F32 => "FP32",
            Element::F64 => "FP64",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|element| element.name() == name)
    }

    /// Bytes of one number.
    pub(crate) fn size(self) -> usize {
        match self {
            Element::F16 | Element::Bf16 => 2,
            Element::F32 => 4,
            Element::F64 => 8,
        }
    }

    /// Numbers in this type's bytes.
    pub(crate) fn encode(self, numbers: &[f64]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(numbers.len() * self.size());
        for &x in numbers {
            match self {
                Element::F16 => bytes.extend(f16::from_f64(x).to_le_bytes()),
                Element::Bf16 => bytes.extend(bf16::from_f64(x).to_le_bytes()),
                Element::F32 => bytes.extend((x as f32).to_le_bytes()),
                Element::F64 => bytes.extend(x.to_le_bytes()),
            }
        }
        bytes
    }

    /// Numbers in single precision from bytes that `fetch` copies. `scratch` is kept between calls.
    pub(crate) fn singles(
        self,
        out: &mut [f32],
        scratch: &mut Vec<u8>,
        fetch: impl FnOnce(&mut [u8]),
    ) {
        match self {
            // Straight to where they are needed.
            Element::F32 => {
                fetch(bytemuck::cast_slice_mut(out));
                #[cfg(target_endian = "big")]
                out.iter_mut().for_each(|x| *x = f32::from_bits(u32::from_le(x.to_bits())));
            }
            Element::F16 | Element::Bf16 => {
                let halves = halves(out.len(), scratch, fetch);
                if self == Element::F16 {
                    let numbers: Vec<f16> = halves.map(f16::from_bits).collect();
                    numbers.convert_to_f32_slice(out);
                } else {
                    out.iter_mut()
                        .zip(halves)
                        .for_each(|(x, bits)| *x = bf16::from_bits(bits).to_f32());
                }
            }
            Element::F64 => {
                let doubles = doubles(out.len(), scratch, fetch);
                out.iter_mut().zip(doubles).for_each(|(x, double)| *x = double as f32);
            }
        }
    }

    /// The same in double precision.
    pub(crate) fn doubles(
        self,
        out: &mut [f64],
        scratch: &mut Vec<u8>,
        fetch: impl FnOnce(&mut [u8]),
    ) {
        if self == Element::F64 {
            let doubles = doubles(out.len(), scratch, fetch);
            out.iter_mut().zip(doubles).for_each(|(x, double)| *x = double);
        } else {
            let mut singles = vec![0.0; out.len()];
            self.singles(&mut singles, scratch, fetch);
            out.iter_mut().zip(singles).for_each(|(x, single)| *x = f64::from(single));
        }
    }
}

fn halves<'s>(
    count: usize,
    scratch: &'s mut Vec<u8>,
    fetch: impl FnOnce(&mut [u8]),
) -> impl Iterator<Item = u16> + 's {
    scratch.resize(2 * count, 0);
    fetch(scratch);
    scratch.chunks_exact(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn doubles<'s>(
    count: usize,
    scratch: &'s mut Vec<u8>,
    fetch: impl FnOnce(&mut [u8]),
) -> impl Iterator<Item = f64> + 's {
    scratch.resize(8 * count, 0);
    fetch(scratch);
    scratch.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap_or([0; 8])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_type_can_hold_come_back_from_its_bytes() {
        let numbers = [0.0, -0.0, 1.0, -2.5, 0.15625, 1024.0];
        for element in Element::ALL {
            assert_eq!(Element::of_name(element.name()), Some(element));
            let bytes = element.encode(&numbers);
            assert_eq!(bytes.len(), numbers.len() * element.size());
            let mut single = [0.0f32; 6];
            element.singles(&mut single, &mut Vec::new(), |out| out.copy_from_slice(&bytes));
            let mut double = [0.0f64; 6];
            element.doubles(&mut double, &mut Vec::new(), |out| out.copy_from_slice(&bytes));
            for (k, x) in numbers.iter().enumerate() {
                assert_eq!(f64::from(single[k]).to_bits(), x.to_bits(), "{element:?}");
                assert_eq!(double[k].to_bits(), x.to_bits(), "{element:?}");
            }
        }
        assert_eq!(Element::of_name("INT32"), None);
    }
}
