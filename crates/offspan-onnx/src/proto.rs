//! The messages of ONNX files, as far as we read and write them.
//!
//! Names and numbers of the fields are those of ONNX's own definition. A part that we never look into is kept as
//! bytes, so that a model which is read and written again loses nothing.

use prost::bytes::Bytes;

/// A whole file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelProto {
    /// Version of the format.
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    /// The program that wrote it.
    #[prost(string, optional, tag = "2")]
    pub producer_name: Option<String>,
    /// That program's version.
    #[prost(string, optional, tag = "3")]
    pub producer_version: Option<String>,
    /// Whose model it is.
    #[prost(string, optional, tag = "4")]
    pub domain: Option<String>,
    /// The model's own version.
    #[prost(int64, optional, tag = "5")]
    pub model_version: Option<i64>,
    /// Words about it.
    #[prost(string, optional, tag = "6")]
    pub doc_string: Option<String>,
    /// What it computes.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// The versions of the operators that it uses.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// What it says of itself.
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
    /// Kept as they are.
    #[prost(bytes = "bytes", repeated, tag = "20")]
    pub training_info: Vec<Bytes>,
    /// Kept as they are.
    #[prost(bytes = "bytes", repeated, tag = "25")]
    pub functions: Vec<Bytes>,
    /// Kept as they are.
    #[prost(bytes = "bytes", repeated, tag = "26")]
    pub configuration: Vec<Bytes>,
}

/// Nodes, and what goes in and comes out.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GraphProto {
    /// In an order in which they can be carried out.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// The graph's name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// Constants.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// Words about it.
    #[prost(string, optional, tag = "10")]
    pub doc_string: Option<String>,
    /// What callers give; those that are initializers as well need not be given.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// What comes out.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    /// Types of values in between.
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfoProto>,
    /// Kept as they are.
    #[prost(bytes = "bytes", repeated, tag = "14")]
    pub quantization_annotation: Vec<Bytes>,
    /// Kept as they are.
    #[prost(bytes = "bytes", repeated, tag = "15")]
    pub sparse_initializer: Vec<Bytes>,
    /// What it says of itself.
    #[prost(message, repeated, tag = "16")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

/// One operation.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeProto {
    /// Names of values; an empty one was left out.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Names of values.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// The node's name.
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    /// The operator.
    #[prost(string, optional, tag = "4")]
    pub op_type: Option<String>,
    /// Its attributes.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// Words about it.
    #[prost(string, optional, tag = "6")]
    pub doc_string: Option<String>,
    /// Whose operator it is; none, empty or `ai.onnx` for ONNX's own.
    #[prost(string, optional, tag = "7")]
    pub domain: Option<String>,
    /// Which of several functions of one name.
    #[prost(string, optional, tag = "8")]
    pub overload: Option<String>,
    /// What it says of itself.
    #[prost(message, repeated, tag = "9")]
    pub metadata_props: Vec<StringStringEntryProto>,
    /// Kept as they are.
    #[prost(bytes = "bytes", repeated, tag = "10")]
    pub device_configurations: Vec<Bytes>,
}

/// An attribute of a node; `type` says which field holds it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AttributeProto {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// A real.
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    /// A whole number.
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    /// A text.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub s: Option<Bytes>,
    /// A tensor.
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    /// A graph.
    #[prost(message, optional, tag = "6")]
    pub g: Option<GraphProto>,
    /// Reals.
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    /// Whole numbers.
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// Texts.
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub strings: Vec<Bytes>,
    /// Tensors.
    #[prost(message, repeated, tag = "10")]
    pub tensors: Vec<TensorProto>,
    /// Graphs.
    #[prost(message, repeated, tag = "11")]
    pub graphs: Vec<GraphProto>,
    /// Words about it.
    #[prost(string, optional, tag = "13")]
    pub doc_string: Option<String>,
    /// Kept as it is.
    #[prost(bytes = "bytes", optional, tag = "14")]
    pub tp: Option<Bytes>,
    /// Kept as they are.
    #[prost(bytes = "bytes", repeated, tag = "15")]
    pub type_protos: Vec<Bytes>,
    /// Which field holds the value.
    #[prost(enumeration = "AttributeType", optional, tag = "20")]
    pub r#type: Option<i32>,
    /// Within a function: the attribute of the function that this one is.
    #[prost(string, optional, tag = "21")]
    pub ref_attr_name: Option<String>,
    /// Kept as it is.
    #[prost(bytes = "bytes", optional, tag = "22")]
    pub sparse_tensor: Option<Bytes>,
    /// Kept as they are.
    #[prost(bytes = "bytes", repeated, tag = "23")]
    pub sparse_tensors: Vec<Bytes>,
}

/// The kinds of attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum AttributeType {
    /// None of the others.
    Undefined = 0,
    /// `f`.
    Float = 1,
    /// `i`.
    Int = 2,
    /// `s`.
    String = 3,
    /// `t`.
    Tensor = 4,
    /// `g`.
    Graph = 5,
    /// `floats`.
    Floats = 6,
    /// `ints`.
    Ints = 7,
    /// `strings`.
    Strings = 8,
    /// `tensors`.
    Tensors = 9,
    /// `graphs`.
    Graphs = 10,
    /// `sparse_tensor`.
    SparseTensor = 11,
    /// `sparse_tensors`.
    SparseTensors = 12,
    /// `tp`.
    TypeProto = 13,
    /// `type_protos`.
    TypeProtos = 14,
}

/// An array. Its numbers are in `raw_data`, in the field of its type, or in another file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorProto {
    /// Its sizes; none for a single number.
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    /// A [`DataType`].
    #[prost(enumeration = "DataType", optional, tag = "2")]
    pub data_type: Option<i32>,
    /// Kept as it is.
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub segment: Option<Bytes>,
    /// Numbers in single precision.
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// Numbers of 32 bits and fewer, flags, and the bits of half precision.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// Texts.
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub string_data: Vec<Bytes>,
    /// Whole numbers of 64 bits.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// The tensor's name.
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
    /// Numbers of any type but texts, little-endian.
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub raw_data: Option<Bytes>,
    /// Numbers in double precision.
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// Whole numbers without sign.
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// Words about it.
    #[prost(string, optional, tag = "12")]
    pub doc_string: Option<String>,
    /// Where its numbers are: `location`, a path beside the model's, `offset`, `length`.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// Whether its numbers are in another file.
    #[prost(enumeration = "DataLocation", optional, tag = "14")]
    pub data_location: Option<i32>,
    /// What it says of itself.
    #[prost(message, repeated, tag = "16")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

/// The types of numbers that we may meet in a classifier; others have no name here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum DataType {
    /// None.
    Undefined = 0,
    /// Single precision.
    Float = 1,
    /// 8 bits without sign.
    Uint8 = 2,
    /// 8 bits.
    Int8 = 3,
    /// 16 bits without sign.
    Uint16 = 4,
    /// 16 bits.
    Int16 = 5,
    /// 32 bits.
    Int32 = 6,
    /// 64 bits.
    Int64 = 7,
    /// Text.
    String = 8,
    /// True or false.
    Bool = 9,
    /// Half precision.
    Float16 = 10,
    /// Double precision.
    Double = 11,
    /// 32 bits without sign.
    Uint32 = 12,
    /// 64 bits without sign.
    Uint64 = 13,
    /// Half of single precision's bits.
    Bfloat16 = 16,
}

/// Where a tensor's numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum DataLocation {
    /// In the message itself.
    Default = 0,
    /// In another file.
    External = 1,
}

/// Name and type of a value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValueInfoProto {
    /// The value's name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Its type.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
    /// Words about it.
    #[prost(string, optional, tag = "3")]
    pub doc_string: Option<String>,
    /// What it says of itself.
    #[prost(message, repeated, tag = "4")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

/// The type of a value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TypeProto {
    /// The type itself.
    #[prost(oneof = "type_proto::Value", tags = "1, 4, 5, 8, 9")]
    pub value: Option<type_proto::Value>,
    /// What it stands for.
    #[prost(string, optional, tag = "6")]
    pub denotation: Option<String>,
}

/// Parts of [`TypeProto`].
pub mod type_proto {
    use prost::bytes::Bytes;

    /// The type itself; all but tensors are kept as they are.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Value {
        /// An array.
        #[prost(message, tag = "1")]
        TensorType(Tensor),
        /// Not looked into.
        #[prost(bytes = "bytes", tag = "4")]
        SequenceType(Bytes),
        /// Not looked into.
        #[prost(bytes = "bytes", tag = "5")]
        MapType(Bytes),
        /// Not looked into.
        #[prost(bytes = "bytes", tag = "8")]
        SparseTensorType(Bytes),
        /// Not looked into.
        #[prost(bytes = "bytes", tag = "9")]
        OptionalType(Bytes),
    }

    /// The type of an array.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Tensor {
        /// A [`DataType`](super::DataType).
        #[prost(enumeration = "super::DataType", optional, tag = "1")]
        pub elem_type: Option<i32>,
        /// Its sizes, if they are known.
        #[prost(message, optional, tag = "2")]
        pub shape: Option<super::TensorShapeProto>,
    }
}

/// Sizes of an array.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorShapeProto {
    /// One for each axis.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dimension>,
}

/// One size.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Dimension {
    /// A number or a name; none if nothing is known.
    #[prost(oneof = "dimension::Value", tags = "1, 2")]
    pub value: Option<dimension::Value>,
    /// What it stands for.
    #[prost(string, optional, tag = "3")]
    pub denotation: Option<String>,
}

/// Parts of [`Dimension`].
pub mod dimension {
    /// A size.
    #[derive(Clone, PartialEq, Eq, prost::Oneof)]
    pub enum Value {
        /// A number.
        #[prost(int64, tag = "1")]
        DimValue(i64),
        /// A name; sizes of one name are equal.
        #[prost(string, tag = "2")]
        DimParam(String),
    }
}

/// A version of operators.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OperatorSetIdProto {
    /// Whose; none or empty for ONNX's own.
    #[prost(string, optional, tag = "1")]
    pub domain: Option<String>,
    /// Which.
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}

/// A name and a text.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StringStringEntryProto {
    /// The name.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    /// The text.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}
