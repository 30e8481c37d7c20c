/**
 * A fake `nvidia-smi`. It prints the requested columns from `table.csv`, and `report.txt` for `-q`; an unknown field or
 * a missing report fails with exit code 2, like the real program. The instances of GPUs are in `list.txt` and
 * `details.xml`.
 */
import fs from 'node:fs'
import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { openAgentFolder } from '../../src/agent/folder.ts'
import { listGpus } from '../../src/agent/gpu-listing.ts'
import { resetGpu } from '../../src/agent/gpu-reset.ts'
import { realGpus } from '../../src/agent/gpu-source.ts'

const script = `#!/bin/sh
cd "$(dirname "$0")" || exit 1
if [ -e failure.txt ]; then cat failure.txt; exit 15; fi
case "$1" in
  --gpu-reset)
    echo "$3" >> resets.txt
    if [ -e reset-failure.txt ]; then cat reset-failure.txt; exit 255; fi
    echo 'GPU 00000000:00:06.0 was successfully reset.'
    exit 0 ;;
  --query-gpu=index) echo 0; exit 0 ;;
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
case "$*" in
  -L) exec cat list.txt ;;
  '-q -x') exec cat details.xml ;;
esac
if [ -e report.txt ]; then exec cat report.txt; fi
echo 'Invalid combination of input arguments.'
exit 2
`

export interface DriverOutput {
  readonly table: string
  readonly report?: string
  readonly list?: string
  readonly details?: string
}

/** The path of the program. Its output can be replaced while it is in use. */
export async function writeNvidiaSmi(dir: string, output: DriverOutput): Promise<string> {
  const { table, report, list, details } = output
  const files = { 'table.csv': table, 'report.txt': report, 'list.txt': list, 'details.xml': details }
  for (const [name, text] of Object.entries(files)) {
    if (text !== undefined) await writeFile(path.join(dir, name), text)
  }
  const program = path.join(dir, 'nvidia-smi')
  await writeFile(program, script, { mode: 0o755 })
  return program
}

const fixture = (name: string): string => fs.readFileSync(`test/fixtures/nvidia-smi/${name}`, 'utf8')

/** What it printed on a real machine. */
export const h200 = { table: fixture('h200-580.csv'), report: fixture('h200-580.txt') }
/** The same GPU with MIG: a program runs on its first instance, and another has filled the second. */
export const h200Split = {
  table: fixture('h200-580-mig.csv'),
  report: fixture('h200-580-mig.txt'),
  list: fixture('h200-580-mig.list.txt'),
  details: fixture('h200-580-mig.xml'),
}
export const h200Uuid = 'GPU-00000000-0000-4000-8000-000000000000'

/** The H200's row with some values replaced. */
export function rowWith(changes: Readonly<Record<string, string>>): string {
  const [header = '', row = ''] = h200.table.trim().split('\n')
  const names = header.split(', ')
  for (const name of Object.keys(changes)) if (!names.includes(name)) throw new Error(`there is no column ${name}`)
  return row
    .split(', ')
    .map((value, at) => changes[names[at] ?? ''] ?? value)
    .join(', ')
}

export function tableOf(...rows: readonly string[]): string {
  return [h200.table.split('\n')[0], ...rows, ''].join('\n')
}

/** H200s with a uuid and a PCI address of their own. */
export function tableOfMany(numbers: readonly number[]): string {
  return tableOf(
    ...numbers.map((number) => rowWith({ uuid: uuidOf(number), 'pci.bus_id': `00000000:0${number}:00.0` })),
  )
}

export function uuidOf(number: number): string {
  return h200Uuid.replace(/.$/, String(number))
}

/** Drivers with replaceable output, a kernel log, and a folder that remembers GPUs. */
export async function openDriverLab() {
  const root = await mkdtemp(path.join(os.tmpdir(), 'berth-gpu-'))
  let folders = 0
  return {
    root,
    close: () => rm(root, { recursive: true, force: true }),
    fakeDriver: async (output: DriverOutput) => {
      folders += 1
      const dir = path.join(root, `agent-${folders}`)
      const folder = openAgentFolder(dir)
      const program = await writeNvidiaSmi(dir, output)
      const kernelLog = path.join(dir, 'kmsg')
      await writeFile(kernelLog, '')
      return {
        dir,
        folder,
        program,
        print: (table: string): Promise<void> => writeFile(path.join(dir, 'table.csv'), table),
        fail: (message: string): Promise<void> => writeFile(path.join(dir, 'failure.txt'), message),
        /** `diagnosis`: the script that stands for `dcgmi`; without it there is none. */
        open: (boot = 'first boot', diagnosis?: string) => {
          const list = (signal?: AbortSignal) => listGpus(program, signal)
          const test = path.join(dir, 'dcgmi')
          if (diagnosis !== undefined) fs.writeFileSync(test, `#!/bin/sh\n${diagnosis}\n`, { mode: 0o755 })
          const reset = (uuid: string, signal: AbortSignal) =>
            resetGpu(uuid, { program, diagnosis: test, list }, signal)
          return realGpus({ list, reset, folder, kernelLog, boot })
        },
        /** The UUIDs of the GPUs that were reset. */
        resets: (): string[] => {
          const file = path.join(dir, 'resets.txt')
          return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').trim().split('\n') : []
        },
        refuseReset: (message: string): Promise<void> => writeFile(path.join(dir, 'reset-failure.txt'), message),
        log: (...records: readonly string[]): Promise<void> =>
          appendFile(kernelLog, records.map((record) => `${record}\n`).join('')),
      }
    },
  }
}
