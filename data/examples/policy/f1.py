"""F1 (Carastan-Santos and de Camargo, SC'17): a function that was fitted to the order in which simulated queues do best."""

from math import log10

from fluxres.instance.policy import EasyByScore


class F1(EasyByScore):
    """Lowest log10(planned length) * size + 870 * log10(submission) first; EASY below."""

    name = "f1"

    def score(self, job, now_s):
        return -(log10(max(job.planned_s, 1.0)) * job.size + 870 * log10(max(job.submitted_at, 1.0)))
