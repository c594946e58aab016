"""Receipts from a form are byte for byte those of the encoder."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.uploads import receipts
from protofleet import wire

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True)
hashes = st.text("0123456789abcdef", min_size=64, max_size=64)
numbers = st.integers(0, 10**9)


@given(
    names,
    st.text(min_size=1, max_size=40),
    numbers,
    names,
    numbers,
    hashes,
    st.sampled_from(["accepted", "late"]),
)
def test_a_form_filled_in_is_what_the_encoder_says(fleet, run, epoch, agent, round, digest, status):
    made = receipts.plain(fleet, run, epoch, "fedproto", agent, round, digest, status)
    envelope = wire.Envelope(
        t="receipt", fleet=fleet, run=run, epoch=epoch, agent=agent, round=round, method="fedproto"
    )
    assert made == wire.encode(envelope, {"digest": digest, "round": round, "status": status})
