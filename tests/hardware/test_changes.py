from __future__ import annotations

from sitrepd.hardware.changes import changes, sentence


def gpu(index: int, **more: object) -> dict[str, object]:
    return {"index": index, "uuid": f"GPU-{index}", "pcie_width": 16, **more}


def test_each_difference_is_named_by_its_item():
    before = {"driver": "580.1", "gpus": [gpu(0), gpu(1), gpu(2)], "disks": [{"path": "/", "total_bytes": 1}]}
    after = {
        "driver": "590.2",
        "gpus": [gpu(0, pcie_width=8), gpu(2), {"index": 3, "uuid": None}],
        "disks": [{"path": "/", "total_bytes": 1}, {"path": "/models", "total_bytes": 2}],
    }
    told = [(change["field"], change["what"], change["before"], change["after"]) for change in changes(before, after)]
    assert told == [
        ("disks", "disk /models", "not there", "there"),
        ("driver", "driver", "580.1", "590.2"),
        ("gpus", "GPU 0: pcie width", 16, 8),
        ("gpus", "GPU 1", "there", "not there"),
        ("gpus", "GPU 3", "not there", "there"),
    ]
    assert sentence(changes(before, after)) == (
        "disk /models is new; driver is 590.2, was 580.1; GPU 0: pcie width is 8, was 16; GPU 1 is gone; GPU 3 is new"
    )


def test_a_gpu_that_got_another_number_is_the_same_gpu():
    told = changes({"gpus": [gpu(1)]}, {"gpus": [{**gpu(1), "index": 0}]})
    assert told == [{"field": "gpus", "what": "GPU 0: index", "before": 1, "after": 0}]


def test_nothing_changed():
    assert changes({"gpus": [gpu(0)], "os": "x"}, {"gpus": [gpu(0)], "os": "x"}) == []


def test_a_gpu_that_does_not_answer_and_does_again():
    there = {"gpus": [{"index": 3, "uuid": "GPU-a", "reason": None}], "note": None}
    lost = {"gpus": [{"index": 3, "uuid": "GPU-a", "reason": "the GPU is lost"}], "note": "GPU 3: the GPU is lost"}
    assert sentence(changes(there, lost)) == "GPU 3 does not answer: the GPU is lost"
    assert sentence(changes(lost, there)) == "GPU 3 answers again"
    assert (
        sentence(changes(there, there | {"note": "no NVIDIA GPU found"})) == "note is no NVIDIA GPU found, was not told"
    )
