"""One thread for a while, then as many as before."""

from __future__ import annotations

import pytest
import torch

from splitbench.core.threads import one_thread


@pytest.mark.parametrize("before", [1, 2])
def test_threads_are_given_back_whatever_happens(before: int) -> None:
    usual = torch.get_num_threads()
    torch.set_num_threads(before)
    try:
        with pytest.raises(ZeroDivisionError), one_thread():
            print(1 // (torch.get_num_threads() - 1))
        assert torch.get_num_threads() == before
    finally:
        torch.set_num_threads(usual)
