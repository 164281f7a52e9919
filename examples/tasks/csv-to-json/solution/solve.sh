#!/bin/bash
set -e
python - <<'END'
import csv, json

people = [{"name": row["name"], "age": int(row["age"])} for row in csv.DictReader(open("/app/people.csv")) if row["age"]]
json.dump(sorted(people, key=lambda one: -one["age"]), open("/app/people.json", "w"))
END
