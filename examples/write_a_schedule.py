#!/usr/bin/env python3
"""Write a schedule in Python: workers fetch keys straight from their owners, and help nobody."""
import ringsched as rs


def fetch(problem, plan):
    """In step s, worker r attends the keys of worker r - s."""
    workers = range(problem.workers)
    for s in workers:
        plan.step(s)
        keys = [plan.move(plan.keys((r - s) % problem.workers), r) for r in workers]
        for r in workers:
            plan.merge(plan.attend(plan.queries(r), keys[r]))


def forgetful(problem, plan):
    """The same with a mistake: the last step is missing."""
    workers = range(problem.workers)
    for s in workers[:-1]:
        plan.step(s)
        keys = [plan.move(plan.keys((r - s) % problem.workers), r) for r in workers]
        for r in workers:
            plan.merge(plan.attend(plan.queries(r), keys[r]))


problem = rs.Problem(workers=4, tokens="32K", passes="both")  # the backward pass follows by itself
for schedule in (fetch, forgetful):
    plan = rs.plan(problem, schedule)
    proof = plan.verify()
    if proof:
        print(f"{schedule.__name__}: holds; {rs.simulate(plan, 'dgx-a100').makespan_us / 1000:.2f} ms, "
              f"ring {rs.simulate(rs.plan(problem, 'ring'), 'dgx-a100').makespan_us / 1000:.2f} ms")
    else:
        print(f"{schedule.__name__}: {proof.violations[0].text}")
