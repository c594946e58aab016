from tests.papers.cell import SHORT, accuracy, without

FEW_SAMPLES = {"agents": 40, "partition": "iid", "rounds": 5, "last": 1}
OTHER_LOOKS = {"partition": "feature-skew", "rounds": 8, "last": 2}
PULLED = ("fedic", "prototype", "prototypes_only=yes")


def what_its_pull_must_reach():
    return accuracy(*PULLED, "lam=0", **SHORT) + 0.025


def test_fedic_pulls_devices_to_their_anchors():
    assert accuracy(*PULLED, **SHORT) > what_its_pull_must_reach()


def test_fedic_clusters_devices_that_see_a_class_in_another_way():
    clustered = accuracy("fedic", "prototype", **OTHER_LOOKS)
    everybody = accuracy("fedic", "prototype", "clusters=1", **OTHER_LOOKS)
    assert clustered > everybody + 0.06


def test_fedic_combines_heads_within_clusters():
    combined = accuracy("fedic", "head", **FEW_SAMPLES)
    own = accuracy("fedic", "head", "combine=none", **FEW_SAMPLES)
    assert combined > own + 0.02


def test_a_loss_without_the_pull_to_anchors_would_be_noticed():
    assert without("to_prototype", *PULLED, **SHORT) < what_its_pull_must_reach()
