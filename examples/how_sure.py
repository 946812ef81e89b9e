#!/usr/bin/env python3
"""How sure is a prediction? Its 80% interval, and whether two schedules can be told apart."""
import ringsched as rs

found = rs.sweep(["zigzag", "striped", "balanced-split", "ring"], machines="hgx-h100", workers=8, tokens="64K")
rows = sorted(map(found.rows.row, range(len(found))), key=lambda row: row["makespan_us"])
best = rows[0]
for row in rows:
    low, high = row["interval_low_us"] / 1000, row["interval_high_us"] / 1000
    apart = "" if row is best else "clearly slower" if low > best["interval_high_us"] / 1000 else "intervals overlap"
    print(f"{row['schedule']:>14}  {row['makespan_us'] / 1000:5.2f} ms, 80% interval "
          f"{low:5.2f} to {high:5.2f} ms  {apart}".rstrip())
print("\nA sweep draws the figures of the machine once for all schedules, so it can tell more apart (column \"slower in\"):")
print(found)
