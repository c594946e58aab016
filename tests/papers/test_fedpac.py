from tests.papers.cell import SHORT, accuracy

FEW_SAMPLES = {
    "agents": 40,
    "partition": "pathological",
    "rounds": 5,
    "last": 1,
    "batch": 8,
    "seeds": 2,
}


def test_fedpac_aligns_features():
    pulled = accuracy("fedpac", "prototype", "prototypes_only=yes", **SHORT, seeds=2)
    alone = accuracy("fedpac", "prototype", "prototypes_only=yes", "lam=0", **SHORT, seeds=2)
    assert pulled > alone + 0.02


def test_fedpac_combines_heads_where_samples_are_few():
    combined = accuracy("fedpac", "head", **FEW_SAMPLES)
    own = accuracy("fedpac", "head", "combine=no", **FEW_SAMPLES)
    assert combined > own + 0.02


def test_fedpac_learns_personal_heads_on_a_common_extractor():
    personal = accuracy("fedpac", "head", **SHORT)
    assert personal > accuracy("fedavg", "head", **SHORT) + 0.1
