from tests.papers.cell import accuracy

FEW_SAMPLES = {"agents": 40, "partition": "pathological", "rounds": 5, "last": 1}


def test_fedpac_aligns_features():
    pulled = accuracy("fedpac", "prototype", "prototypes_only=yes", rounds=8, last=3)
    alone = accuracy("fedpac", "prototype", "prototypes_only=yes", "lam=0", rounds=8, last=3)
    assert pulled > alone + 0.02


def test_fedpac_combines_heads_where_samples_are_few():
    combined = accuracy("fedpac", "head", **FEW_SAMPLES)
    own = accuracy("fedpac", "head", "combine=no", **FEW_SAMPLES)
    assert combined > own + 0.02


def test_fedpac_learns_personal_heads_on_a_common_extractor():
    personal = accuracy("fedpac", "head", rounds=8, last=3)
    assert personal > accuracy("fedavg", "head", rounds=8, last=3) + 0.1
