"""What is wrong or doubtful with an environment, and what to do about it: a pure function of the evidence."""

from ga3c.check import conduct, episodes, spaces
from ga3c.check.evidence import Evidence
from ga3c.check.finding import Finding, by_level


def judge(evidence: Evidence) -> list[Finding]:
    """All findings, the most serious first."""
    found = [*conduct.ended(evidence), *spaces.actions(evidence)]
    if evidence.play is not None:
        checks = (
            spaces.misfits,
            conduct.failures,
            spaces.numbers,
            episodes.rewards,
            episodes.lengths,
            conduct.printed,
            conduct.speed,
            spaces.reuse,
        )
        found += [finding for check in checks for finding in check(evidence, evidence.play)]
    found += [*conduct.seeding(evidence), *conduct.leaks(evidence)]
    if evidence.refusal and not any(finding.level == "fault" for finding in found):
        text = evidence.refusal.rstrip(".")
        found.append(Finding("fault", "refused", text, "`ga3c train` refuses it", "change what the sentence names"))
    for note in evidence.notes:
        why, do = "the network is chosen by the observation space", "nothing, if this is meant; else change the space"
        found.append(Finding("note", "network", note.rstrip("."), why, do))
    return by_level(found)
