// An ONNX graph that somebody else made: nothing in it may reach outside of the file, run for ever, or be larger than it
// says. The rules, the operators and the words are those of protofleet/exchange/graph.py, which says why.

import { BundleError, TEXT } from "./cbor.mjs";

export const OPERATORS = new Set(
  `
  Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization
  BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CastLike Ceil Celu CenterCropPad Clip
  Col2Im Compress Concat Constant ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumSum DFT DepthToSpace
  DequantizeLinear Det Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU
  Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual
  GridSample GroupNormalization HammingWindow HannWindow HardSigmoid HardSwish Hardmax Identity If
  InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax
  LpNormalization LpPool MatMul MatMulInteger Max MaxPool MaxUnpool Mean MeanVarianceNormalization MelWeightMatrix
  Min Mish Mod Mul Neg NonZero Not OneHot Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear RMSNormalization
  RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
  ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RotaryEmbedding Round STFT Scatter ScatterElements
  ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt
  Squeeze Sub Sum Swish Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Upsample Where Xor
`.split(/\s+/).filter(Boolean),
);
const DOMAINS = ["", "ai.onnx"];
const [NODES, FIELDS, DEPTH, RANK] = [20_000, 1_000_000, 24, 16];
const ELEMENTS = 2 ** 29; // of all tensors together

// Of a tensor's type in the standard's numbers: bytes of an element, and where elements are that are not raw.
const TYPES = {
  1: [4, "float_data"],
  2: [1, "int32_data"],
  3: [1, "int32_data"],
  4: [2, "int32_data"],
  5: [2, "int32_data"],
  6: [4, "int32_data"],
  7: [8, "int64_data"],
  9: [1, "int32_data"],
  10: [2, "int32_data"],
  11: [8, "double_data"],
  12: [4, "uint64_data"],
  13: [8, "uint64_data"],
  16: [2, "int32_data"],
};
const DATA = ["float_data", "int32_data", "int64_data", "double_data", "uint64_data", "raw_data"];
const WIDTH = { float_data: 4, double_data: 8 };

// A message's fields by number: a name, and what is in it; `*` is any number of them, `-` a field that nobody may use.
const MESSAGES = {
  Model:
    "1 ir_version int, 2 producer_name text, 3 producer_version text, 4 domain text, 5 model_version int, " +
    "6 doc_string text, 7 graph Graph, 8 opset_import Opset*, 14 metadata_props Entry*, 20 training_info -, " +
    "25 functions -",
  Opset: "1 domain text, 2 version int",
  Entry: "1 key text, 2 value text",
  Graph:
    "1 node Node*, 2 name text, 5 initializer Tensor*, 10 doc_string text, 11 input Value*, 12 output Value*, " +
    "13 value_info Value*, 14 quantization_annotation Annotation*, 15 sparse_initializer Sparse*, " +
    "16 metadata_props Entry*",
  Annotation: "1 tensor_name text, 2 parameters Entry*",
  Node:
    "1 input text*, 2 output text*, 3 name text, 4 op_type text, 5 attribute Attribute*, 6 doc_string text, " +
    "7 domain text, 8 overload -, 9 metadata_props Entry*",
  Attribute:
    "1 name text, 2 f float, 3 i int, 4 s bytes, 5 t Tensor, 6 g Graph, 7 floats float*, 8 ints int*, " +
    "9 strings bytes*, 10 tensors -, 11 graphs -, 13 doc_string text, 14 tp -, 15 type_protos -, 20 type int, " +
    "21 ref_attr_name -, 22 sparse_tensor Sparse, 23 sparse_tensors -",
  Tensor:
    "1 dims int*, 2 data_type int, 3 segment -, 4 float_data float*, 5 int32_data int*, 6 string_data -, " +
    "7 int64_data int*, 8 name text, 9 raw_data bytes, 10 double_data double*, 11 uint64_data int*, " +
    "12 doc_string text, 13 external_data -, 14 data_location int, 16 metadata_props Entry*",
  Sparse: "1 values Tensor, 2 indices Tensor, 3 dims int*",
  Value: "1 name text, 2 type Type, 3 doc_string text, 4 metadata_props Entry*",
  Type:
    "1 tensor_type TensorType, 4 sequence_type -, 5 map_type -, 6 denotation text, 7 opaque_type -, " +
    "8 sparse_tensor_type -, 9 optional_type -",
  TensorType: "1 elem_type int, 2 shape Shape",
  Shape: "1 dim Dim*",
  Dim: "1 dim_value int, 2 dim_param text, 3 denotation text",
};
const WIRE = { int: 0, double: 1, float: 5 };

const NAMES = {}; // by message and field number: its name and whether it may be there
const ROWS = {}; // by message and the key that a field begins with
for (const [message, rows] of Object.entries(MESSAGES)) {
  [NAMES[message], ROWS[message]] = [new Map(), new Map()];
  for (const row of rows.split(", ")) {
    const [number, field, word] = row.split(" ");
    const [kind, many] = [word.replace("*", ""), word.endsWith("*")];
    NAMES[message].set(Number(number), { field, kind });
    if (kind === "-") continue;
    const value = { field, kind, many, message: /^[A-Z]/.test(kind) };
    for (const wire of new Set([WIRE[kind] ?? 2, many ? 2 : (WIRE[kind] ?? 2)])) ROWS[message].set(Number(number) * 8 + wire, value);
  }
}

/** Throws in one line what such a graph must not have. */
export function check(data) {
  if (!new Walk(data).message("Model", { begin: 0, end: data.length }, 0).graph) throw broken("there is none");
}

function refused(words) {
  return new BundleError(`the graph ${words}`);
}

function broken(words) {
  return refused(`cannot be loaded: ${words}`);
}

/** One file, and what of its budgets is left. */
class Walk {
  constructor(data) {
    Object.assign(this, { data, fields: FIELDS, nodes: NODES, elements: ELEMENTS, withGraph: new Set() });
  }

  /** Every field of a message, all that is inside it checked. */
  message(name, { begin, end }, depth) {
    if (depth > DEPTH) throw refused(`is nested more than ${DEPTH} deep`);
    const values = {};
    for (let at = begin; at < end; ) {
      if (--this.fields < 0) throw refused(`has more than ${FIELDS} fields`);
      const key = this.varint(at, end);
      const row = ROWS[name].get(key.number);
      if (!row) throw stranger(name, key.number);
      const span = this.span(key.number % 8, key.end, end);
      at = span.end;
      if (!values[row.field]) values[row.field] = [span];
      else if (row.many) values[row.field].push(span);
      else throw broken(`${name} has ${row.field} twice`);
      if (row.kind === "text") this.text(span);
      else if (row.message) this.hold(row.kind, span, this.message(row.kind, span, depth + 1));
    }
    return values;
  }

  /** Where a field of this type lies; of a number that lies by itself `number` is it. */
  span(wire, at, end) {
    if (wire === 0) {
      const { number, end: after } = this.varint(at, end);
      return { begin: after, end: after, number };
    }
    const { number: length, end: begin } = wire === 2 ? this.varint(at, end) : { number: wire === 1 ? 8 : 4, end: at };
    if (begin + length > end) throw broken("a field is longer than the message");
    return { begin, end: begin + length, number: null };
  }

  /** Above 2⁵³ it is not exact, and still larger than all that is allowed. */
  varint(at, end) {
    let [number, scale] = [0, 1];
    for (let i = 0; i < 10 && at < end; i++, scale *= 128) {
      const byte = this.data[at++];
      number += (byte & 127) * scale;
      if (byte < 128) return { number, end: at };
    }
    throw broken("a number without an end");
  }

  hold(kind, span, inner) {
    if (kind === "Attribute" && inner.g) this.withGraph.add(span);
    else if (kind === "Node") this.node(inner);
    else if (kind === "Tensor") this.tensor(inner);
    else if (kind === "Sparse") this.spend(this.product(inner));
  }

  text(span) {
    try {
      return TEXT.decode(this.data.subarray(span.begin, span.end));
    } catch {
      throw broken("a name that is no text");
    }
  }

  node(node) {
    if (--this.nodes < 0) throw refused(`has more than ${NODES} nodes`);
    const [name, domain] = ["op_type", "domain"].map((field) => (node[field] ? this.text(node[field][0]) : "").slice(0, 60));
    if (!DOMAINS.includes(domain) || !OPERATORS.has(name)) {
      throw refused(`has the operator '${name}'${DOMAINS.includes(domain) ? "" : ` of ${domain}`}, which is not allowed`);
    }
    if (name !== "If" && node.attribute?.some((span) => this.withGraph.has(span))) {
      throw refused(`has a graph inside '${name}', which is not allowed`);
    }
  }

  tensor(tensor) {
    if (tensor.data_location?.some(({ number }) => number !== 0)) throw refused("has data outside of the file, which is not allowed");
    const type = tensor.data_type?.[0].number ?? 0;
    if (!Object.hasOwn(TYPES, type)) throw refused(`has a tensor of type ${type}, which is not allowed`);
    const [[width, home], count] = [TYPES[type], this.product(tensor)];
    const places = DATA.filter((name) => tensor[name]);
    this.spend(count);
    if (!places.length && !count) return;
    if (places.length !== 1 || ![home, "raw_data"].includes(places[0])) throw broken("a tensor without data of its type");
    const spans = tensor[places[0]];
    const bytes = spans.reduce((sum, { begin, end }) => sum + end - begin, 0);
    const have = places[0] === "raw_data" ? bytes / width : this.count(spans, WIDTH[home], bytes);
    if (have !== count) throw refused(`has a tensor of ${count} elements that holds ${have}`);
  }

  /** How many numbers lie there, packed or one by one: the last byte of a varint is the one below 128. */
  count(spans, width, bytes) {
    if (width) return Math.floor(bytes / width);
    const packed = ({ begin, end }) => this.data.subarray(begin, end).reduce((n, byte) => n + (byte < 128 ? 1 : 0), 0);
    return spans.reduce((sum, span) => sum + (span.number === null ? packed(span) : 1), 0);
  }

  /** Of a tensor's sizes; a negative one is larger than any. */
  product(tensor) {
    const spans = tensor.dims ?? [];
    if (spans.length > RANK || spans.reduce((sum, { begin, end }) => sum + end - begin, 0) > 10 * RANK) {
      throw refused(`has a tensor of more than ${RANK} sizes`);
    }
    const sizes = spans.flatMap((span) => (span.number === null ? this.numbers(span) : [span.number]));
    if (sizes.some((size) => size > ELEMENTS)) throw refused(`has a tensor of ${Math.max(...sizes)} elements and more`);
    return sizes.reduce((a, b) => a * b, 1);
  }

  numbers({ begin, end }) {
    const numbers = [];
    for (let at = begin; at < end; ) {
      const { number, end: after } = this.varint(at, end);
      numbers.push(number);
      at = after;
    }
    return numbers;
  }

  spend(elements) {
    this.elements -= elements;
    if (!(this.elements >= 0)) throw refused(`has tensors of more than ${ELEMENTS} elements`);
  }
}

function stranger(message, key) {
  const { field, kind } = NAMES[message].get(Math.floor(key / 8)) ?? {};
  if (!field) return broken(`${message} has no field ${Math.floor(key / 8)}`);
  if (kind === "-") return refused(`has ${field.replaceAll("_", " ")}, which is not allowed`);
  return broken(`${message}.${field} is of another type`);
}
