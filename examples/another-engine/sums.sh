# CHANGES is the change table, CAPTURE the batch's name. Nothing else is known here, and nothing else is needed.
mkdir -p sums
python3 - "$CHANGES" <<'PYTHON' | awk -F, '{ sum[$1] += $2 } END { for (meter in sum) print meter "," sum[meter] }' | sort -n > "sums/$CAPTURE.part"
import sys
from icefloe.config import load
from icefloe.lake import Lake

catalog, _, table = sys.argv[1].partition(".")
for batch in Lake.open(load()).tables.catalog.load_table(table).scan(selected_fields=("meter", "watt_hours")).to_arrow_batch_reader():
    for meter, watt_hours in zip(*(column.to_pylist() for column in batch.columns)):
        print(meter, watt_hours, sep=",")
PYTHON
mv "sums/$CAPTURE.part" "sums/$CAPTURE.csv"
echo "{\"meters\": $(wc -l < "sums/$CAPTURE.csv")}" > "$ICEFLOE_OUTPUT"
