/**
 * A fake `nvidia-smi`. It prints the requested columns from `table.csv`, and `report.txt` for `-q`; an unknown field or
 * a missing report fails with exit code 2, like the real program.
 */
import { writeFile } from 'node:fs/promises'
import path from 'node:path'

const script = `#!/bin/sh
cd "$(dirname "$0")" || exit 1
if [ -e failure.txt ]; then cat failure.txt; exit 15; fi
case "$1" in
  --query-gpu=*) exec awk -F', ' -v fields="\${1#--query-gpu=}" '
    NR == 1 {
      for (at = 1; at <= NF; at++) column[$at] = at
      count = split(fields, wanted, ",")
      for (at = 1; at <= count; at++) if (!(wanted[at] in column)) {
        printf "Field \\"%s\\" is not a valid field to query.\\n\\n", wanted[at]
        exit 2
      }
      next
    }
    { for (at = 1; at <= count; at++) printf "%s%s", $column[wanted[at]], at < count ? ", " : "\\n" }
  ' table.csv ;;
esac
if [ -e report.txt ]; then exec cat report.txt; fi
echo 'Invalid combination of input arguments.'
exit 2
`

/** The path of the program. Its output can be replaced while it is in use. */
export async function writeNvidiaSmi(dir: string, output: { table: string; report?: string }): Promise<string> {
  await writeFile(path.join(dir, 'table.csv'), output.table)
  if (output.report !== undefined) await writeFile(path.join(dir, 'report.txt'), output.report)
  const program = path.join(dir, 'nvidia-smi')
  await writeFile(program, script, { mode: 0o755 })
  return program
}
