from tests.papers.cell import accuracy

OTHER_LOOKS = {"partition": "feature-skew", "rounds": 10, "last": 2, "seeds": 2}


def test_ifca_gives_devices_of_another_look_another_model():
    two, one = (accuracy("ifca", "head", f"clusters={k}", **OTHER_LOOKS) for k in (2, 1))
    assert two > one + 0.05


def test_with_one_cluster_it_is_fedavg():
    one = accuracy("ifca", "head", "clusters=1", **OTHER_LOOKS)
    assert one == accuracy("fedavg", "head", **OTHER_LOOKS)
