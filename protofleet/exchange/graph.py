"""An ONNX graph that somebody else made: nothing in it may reach outside of the file, run for ever,
or be larger than it says.

The bytes are walked as they lie, by the standard's own numbers of fields; nothing is copied, and no
package for it is needed. Weights are skipped over, so a graph of any size costs milliseconds.
"""

# Theory of operation
#
# A runtime believes a graph: it opens files that a tensor names, relative to the working directory;
# it loops as often as a condition says; it allocates what sizes say. So before one is loaded, every
# message of the file is looked at, wherever it lies (graphs inside nodes, tensors in attributes):
#
#   where               what is refused
#   any message         a field that the standard has not (as `_FIELDS` has it), one of another wire
#                       type, a text that is none, one that may stand there once and stands
#                       there twice: two readers may take such bytes for two graphs
#   ModelProto          functions, training
#   NodeProto           an operator or domain that is not among `OPERATORS`
#   AttributeProto      references (of functions), graphs of anything but `If`, tensors, graphs
#                       and types in bulk, which no operator here takes
#   TensorProto         data elsewhere, segments, texts; another number of elements than its sizes
#                       say; no more than ELEMENTS in all
#   SparseTensorProto   sizes that would make more than ELEMENTS when it is filled up
#   TypeProto           anything but tensors
#
# The operators are the standard's without those that loop (Loop, Scan, SequenceMap), draw lots,
# read texts or pictures, handle sequences and optionals, or compute losses. The ones of other
# domains are left out as a whole: what a runtime brings beside the standard was tried least.
#
# What this cannot say is what a graph costs to run: an Expand may make a terabyte of one number.
# Whoever loads one that came from outside does so under limits (`edge_agent.inference.sandbox`).
#
# Protobuf itself: a message is a row of fields, each a varint `number << 3 | type`, then a varint
# (type 0), 8 bytes (1), a length and so many bytes (2) or 4 bytes (5). Repeated numbers lie one by
# one or, packed, in one field of type 2; both are read.

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from protofleet.exchange.archive import BundleError

_NAMES = """
    Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool
    BatchNormalization BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast
    CastLike Ceil Celu CenterCropPad Clip Col2Im Compress Concat Constant ConstantOfShape Conv
    ConvInteger ConvTranspose Cos Cosh CumSum DFT DepthToSpace DequantizeLinear Det Div Dropout
    DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather
    GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater
    GreaterOrEqual GridSample GroupNormalization HammingWindow HannWindow HardSigmoid HardSwish
    Hardmax Identity If InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu
    Less LessOrEqual Log LogSoftmax LpNormalization LpPool MatMul MatMulInteger Max MaxPool
    MaxUnpool Mean MeanVarianceNormalization MelWeightMatrix Min Mish Mod Mul Neg NonZero Not
    OneHot Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN Range
    Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RotaryEmbedding Round
    STFT Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice
    Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Swish Tan Tanh
    ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Upsample Where Xor
"""
OPERATORS = frozenset(_NAMES.split())
DOMAINS = frozenset((b"", b"ai.onnx"))
NODES = 20_000
ELEMENTS = 1 << 29  # of all tensors together
DEPTH = 24  # messages inside each other: an `If` in a graph is three
RANK = 16  # sizes of one tensor
FIELDS = 1_000_000


# Of a tensor's type in the standard's numbers: bytes of an element, and the field that holds
# elements where they are not raw.
_ELEMENTS: Mapping[int, tuple[int, str]] = {
    1: (4, "float_data"),
    2: (1, "int32_data"),
    3: (1, "int32_data"),
    4: (2, "int32_data"),
    5: (2, "int32_data"),
    6: (4, "int32_data"),
    7: (8, "int64_data"),
    9: (1, "int32_data"),
    10: (2, "int32_data"),
    11: (8, "double_data"),
    12: (4, "uint64_data"),
    13: (8, "uint64_data"),
    16: (2, "int32_data"),
}
_DATA = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "raw_data")

# A message's fields by number: a name, and what is in it. `int`, `float` (4 bytes) and `double` are
# numbers, `text` is UTF-8, `bytes` is data, a name with a capital is a message; `*` behind it is
# any number of them, `-` in its place is a field that nobody may use here.
_FIELDS: Mapping[str, Mapping[int, tuple[str, str]]] = {
    name: {int(number): (field, kind) for number, field, kind in (row.split() for row in rows)}
    for name, rows in {
        "Model": (
            "1 ir_version int",
            "2 producer_name text",
            "3 producer_version text",
            "4 domain text",
            "5 model_version int",
            "6 doc_string text",
            "7 graph Graph",
            "8 opset_import Opset*",
            "14 metadata_props Entry*",
            "20 training_info -",
            "25 functions -",
        ),
        "Opset": ("1 domain text", "2 version int"),
        "Entry": ("1 key text", "2 value text"),
        "Graph": (
            "1 node Node*",
            "2 name text",
            "5 initializer Tensor*",
            "10 doc_string text",
            "11 input Value*",
            "12 output Value*",
            "13 value_info Value*",
            "14 quantization_annotation Annotation*",
            "15 sparse_initializer Sparse*",
            "16 metadata_props Entry*",
        ),
        "Annotation": ("1 tensor_name text", "2 parameters Entry*"),
        "Node": (
            "1 input text*",
            "2 output text*",
            "3 name text",
            "4 op_type text",
            "5 attribute Attribute*",
            "6 doc_string text",
            "7 domain text",
            "8 overload -",
            "9 metadata_props Entry*",
        ),
        "Attribute": (
            "1 name text",
            "2 f float",
            "3 i int",
            "4 s bytes",
            "5 t Tensor",
            "6 g Graph",
            "7 floats float*",
            "8 ints int*",
            "9 strings bytes*",
            "10 tensors -",
            "11 graphs -",
            "13 doc_string text",
            "14 tp -",
            "15 type_protos -",
            "20 type int",
            "21 ref_attr_name -",
            "22 sparse_tensor Sparse",
            "23 sparse_tensors -",
        ),
        "Tensor": (
            "1 dims int*",
            "2 data_type int",
            "3 segment -",
            "4 float_data float*",
            "5 int32_data int*",
            "6 string_data -",
            "7 int64_data int*",
            "8 name text",
            "9 raw_data bytes",
            "10 double_data double*",
            "11 uint64_data int*",
            "12 doc_string text",
            "13 external_data -",
            "14 data_location int",
            "16 metadata_props Entry*",
        ),
        "Sparse": ("1 values Tensor", "2 indices Tensor", "3 dims int*"),
        "Value": ("1 name text", "2 type Type", "3 doc_string text", "4 metadata_props Entry*"),
        "Type": (
            "1 tensor_type TensorType",
            "4 sequence_type -",
            "5 map_type -",
            "6 denotation text",
            "7 opaque_type -",
            "8 sparse_tensor_type -",
            "9 optional_type -",
        ),
        "TensorType": ("1 elem_type int", "2 shape Shape"),
        "Shape": ("1 dim Dim*",),
        "Dim": ("1 dim_value int", "2 dim_param text", "3 denotation text"),
    }.items()
}
_WIRE = {"int": 0, "double": 1, "float": 5}
_WIDTH = {"double": 8, "float": 4}


class _Row(NamedTuple):
    """What a field's key stands for."""

    field: str
    kind: str
    many: bool
    is_text: bool
    is_message: bool


def _rows() -> dict[str, dict[int, _Row]]:
    """Fields by the key that they begin with; repeated numbers have one more, where packed."""
    rows: dict[str, dict[int, _Row]] = {name: {} for name in _FIELDS}
    for name, fields in _FIELDS.items():
        for number, (field, kind) in fields.items():
            plain, many = kind.rstrip("*"), kind[-1] == "*"
            row = _Row(field, plain, many, plain == "text", plain[0].isupper())
            for wire in {_WIRE.get(plain, 2), 2} if many else {_WIRE.get(plain, 2)}:
                if plain != "-":
                    rows[name][number << 3 | wire] = row
    return rows


_ROWS = _rows()
# Where a field's bytes lie; of a number that lies by itself the third is it, and there are none.
_Span = tuple[int, int, int]
_Message = Mapping[str, list[_Span]]


def check(data: bytes) -> None:
    """`BundleError` says in one line what such a graph must not have."""
    if "graph" not in _Walk(data).message("Model", (0, len(data), -1), 0):
        raise BundleError("the graph cannot be loaded: there is none")


class _Walk:
    """One file, and what of its budgets is left."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._fields, self._nodes, self._elements = FIELDS, NODES, ELEMENTS
        self._with_graph: set[_Span] = set()  # attributes

    def message(self, name: str, at: _Span, depth: int) -> dict[str, list[_Span]]:
        """Every field of a message, all that is inside it checked."""
        if depth > DEPTH:
            raise BundleError(f"the graph is nested more than {DEPTH} deep")
        rows, values, here, end = _ROWS[name], dict[str, list[_Span]](), at[0], at[1]
        while here < end:
            self._fields -= 1
            if self._fields < 0:
                raise BundleError(f"the graph has more than {FIELDS} fields")
            key, here = self._varint(here, end)
            row = rows.get(key)
            if row is None:
                raise BundleError(_stranger(name, key))
            span = self._span(key & 7, here, end)
            here = span[1]
            field = row.field
            if field not in values:
                values[field] = [span]
            elif row.many:
                values[field].append(span)
            else:
                raise BundleError(f"the graph cannot be loaded: {name} has {field} twice")
            if row.is_text:
                self._must_be_text(span)
            elif row.is_message:
                self._hold(row.kind, span, self.message(row.kind, span, depth + 1))
        return values

    def _span(self, wire: int, here: int, end: int) -> _Span:
        """Where a field of this type lies whose key ends here."""
        if wire == 0:
            number, here = self._varint(here, end)
            return here, here, number
        if wire == 2:
            length, here = self._varint(here, end)
        else:
            length = 8 if wire == 1 else 4
        if here + length > end:
            raise BundleError("the graph cannot be loaded: a field is longer than the message")
        return here, here + length, -1

    def _varint(self, here: int, end: int) -> tuple[int, int]:
        if here < end and self._data[here] < 128:  # nearly all of them
            return self._data[here], here + 1
        value = shift = 0
        while here < end and shift < 70:
            byte = self._data[here]
            value, here, shift = value | (byte & 127) << shift, here + 1, shift + 7
            if byte < 128:
                return value, here
        raise BundleError("the graph cannot be loaded: a number without an end")

    def _hold(self, kind: str, at: _Span, inner: _Message) -> None:
        if kind == "Attribute" and "g" in inner:
            self._with_graph.add(at)
        elif kind == "Node":
            self._node(inner)
        elif kind == "Tensor":
            self._tensor(inner)
        elif kind == "Sparse":
            self._spend(self._product(inner))

    def _must_be_text(self, at: _Span) -> None:
        try:
            self._data[at[0] : at[1]].decode()
        except UnicodeDecodeError:
            raise BundleError("the graph cannot be loaded: a name that is no text") from None

    def _text(self, message: _Message, field: str) -> bytes:
        begin, end, _ = message[field][0] if field in message else (0, 0, -1)
        return self._data[begin : min(end, begin + 60)]

    def _node(self, node: _Message) -> None:
        self._nodes -= 1
        if self._nodes < 0:
            raise BundleError(f"the graph has more than {NODES} nodes")
        operator, domain = self._text(node, "op_type"), self._text(node, "domain")
        name = operator.decode("ascii", "replace")
        if domain not in DOMAINS or name not in OPERATORS:
            whose = f" of {domain.decode('ascii', 'replace')}" if domain not in DOMAINS else ""
            raise BundleError(f"the graph has the operator {name!r}{whose}, which is not allowed")
        if name != "If" and not self._with_graph.isdisjoint(node.get("attribute", ())):
            raise BundleError(f"the graph has a graph inside {name!r}, which is not allowed")

    def _tensor(self, tensor: _Message) -> None:
        if any(number != 0 for _, _, number in tensor.get("data_location", ())):
            raise BundleError("the graph has data outside of the file, which is not allowed")
        of_type = tensor["data_type"][0][2] if "data_type" in tensor else 0
        if of_type not in _ELEMENTS:
            raise BundleError(f"the graph has a tensor of type {of_type}, which is not allowed")
        width, home = _ELEMENTS[of_type]
        count, places = self._product(tensor), [name for name in _DATA if name in tensor]
        self._spend(count)
        if not places and not count:
            return
        if len(places) != 1 or places[0] not in ("raw_data", home):
            raise BundleError("the graph cannot be loaded: a tensor without data of its type")
        have = (
            sum(end - begin for begin, end, _ in tensor["raw_data"]) / width
            if places == ["raw_data"]
            else self._count(tensor[home], home)
        )
        if have != count:
            raise BundleError(f"the graph has a tensor of {count} elements that holds {have:g}")

    def _product(self, tensor: _Message) -> int:
        """Of a tensor's sizes; a negative one is larger than any."""
        places = tensor.get("dims", [])
        # Lengths first: the product of a million sizes is a number of megabytes.
        if sum(end - begin for begin, end, _ in places) > 10 * RANK or len(places) > RANK:
            raise BundleError(f"the graph has a tensor of more than {RANK} sizes")
        sizes = [size for at in places for size in self._numbers(at)]
        if any(size > ELEMENTS for size in sizes):
            raise BundleError(f"the graph has a tensor of {max(sizes)} elements and more")
        return math.prod(sizes)

    def _numbers(self, at: _Span) -> list[int]:
        here, end, number = at
        if number >= 0:
            return [number]
        numbers = []
        while here < end:
            number, here = self._varint(here, end)
            numbers.append(number)
        return numbers

    def _count(self, places: list[_Span], field: str) -> int:
        """How many numbers lie there, packed or one by one."""
        width = _WIDTH.get(field.removesuffix("_data"), 0)
        if width:
            return sum((end - begin) // width for begin, end, _ in places)
        return sum(
            # The last byte of a varint is the one below 128.
            1 if at[2] >= 0 else int(np.count_nonzero(self._bytes(at) < 128))
            for at in places
        )

    def _bytes(self, at: _Span) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        return np.frombuffer(self._data, np.uint8, at[1] - at[0], at[0])

    def _spend(self, elements: int) -> None:
        self._elements -= elements
        if self._elements < 0:
            raise BundleError(f"the graph has tensors of more than {ELEMENTS} elements")


def _stranger(name: str, key: int) -> str:
    """What is wrong with a field that begins so."""
    field, kind = _FIELDS[name].get(key >> 3, ("", ""))
    if not field:
        return f"the graph cannot be loaded: {name} has no field {key >> 3}"
    if kind == "-":
        return f"the graph has {field.replace('_', ' ')}, which is not allowed"
    return f"the graph cannot be loaded: {name}.{field} is of another type"
