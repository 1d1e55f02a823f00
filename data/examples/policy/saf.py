"""SAF: the smallest area first."""

from fluxres.instance.policy import EasyByScore


class Saf(EasyByScore):
    """Lowest planned length * size first; EASY below."""

    name = "saf"

    def score(self, job, now_s):
        return -job.planned_s * job.size
