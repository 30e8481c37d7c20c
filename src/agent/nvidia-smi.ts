/**
 * Runs `nvidia-smi` twice: the CSV query for identity, use and most of the health, and the ECC report for facts that no
 * query field has (CUDA version, memory repairs, row remapping before driver 570). Where a GPU is split, two more runs
 * list its MIG instances.
 */
import { execFile } from 'node:child_process'
import { readInstances, type MigInstance } from './mig-instance.ts'

/** Fields that drivers since 2016 know. The name comes last: a comma in it cannot shift a column. */
const fields = [
  'uuid',
  'driver_version',
  'pci.bus_id',
  'memory.total',
  'memory.used',
  'clocks.max.graphics',
  'utilization.gpu',
  'power.draw',
  'temperature.gpu',
  'pstate',
  'pcie.link.gen.current',
  'pcie.link.gen.max',
  'pcie.link.width.max',
  'ecc.errors.uncorrected.volatile.total',
  'retired_pages.pending',
  'name',
] as const
/** Before driver 565 a query for the first fails as a whole. */
const newerFields = [
  'gpu_recovery_action',
  'clocks_throttle_reasons.hw_thermal_slowdown',
  'clocks_throttle_reasons.hw_power_brake_slowdown',
] as const
/** Drivers since 450 know it. */
const splitField = 'mig.mode.current'
const fieldsByDriver: ReadonlyArray<readonly Field[]> = [
  [...newerFields, splitField, ...fields],
  [splitField, ...fields],
  fields,
]
type Field = (typeof fields)[number] | (typeof newerFields)[number] | typeof splitField
export type GpuFields = Readonly<Partial<Record<Field, string>>>

const reportArguments = ['-q', '-d', 'ECC,ROW_REMAPPER']
const INVALID_ARGUMENT = 2
/** A driver can hang on a lost device. */
const TIMEOUT_MS = 30_000
const MAX_OUTPUT_BYTES = 8 * 1_048_576

/** Facts of each GPU by the names of the query fields, the ECC report as it was printed, and the instances of GPUs. */
export type SmiOutput =
  | { readonly rows: readonly GpuFields[]; readonly report: string; readonly instances: readonly MigInstance[] }
  | { readonly reason: string }

export async function runNvidiaSmi(program: string, signal?: AbortSignal): Promise<SmiOutput> {
  const [table, report] = await Promise.all([
    queryTable(program, signal),
    // Drivers before 450 reject ROW_REMAPPER; they report none of these facts either.
    runSmi(program, reportArguments, signal, (text) => readReport(text).flags.size > 0),
  ])
  if ('reason' in table) return table
  if ('reason' in report) return report
  const instances = table.rows.some(isSplit) ? await queryInstances(program, signal) : []
  return 'reason' in instances ? instances : { rows: table.rows, report: report.text, instances }
}

export function isSplit(row: GpuFields): boolean {
  return row[splitField] === 'Enabled'
}

async function queryInstances(
  program: string,
  signal: AbortSignal | undefined,
): Promise<readonly MigInstance[] | { reason: string }> {
  const [list, details] = await Promise.all([
    runSmi(program, ['-L'], signal, () => false),
    runSmi(program, ['-q', '-x'], signal, () => false),
  ])
  if ('reason' in list) return list
  return 'reason' in details ? details : readInstances(list.text, details.text)
}

async function queryTable(
  program: string,
  signal: AbortSignal | undefined,
): Promise<{ rows: GpuFields[] } | { reason: string }> {
  for (const queried of fieldsByDriver) {
    const query = [`--query-gpu=${queried.join(',')}`, '--format=csv,noheader,nounits']
    const answer = await runSmi(program, query, signal, (text) => readRows(text, queried).length > 0)
    if ('reason' in answer) return answer
    if (answer.code !== INVALID_ARGUMENT) return { rows: readRows(answer.text, queried) }
  }
  return { reason: `${program} does not support the query that Berth needs; update the NVIDIA driver.` }
}

/** With one lost device among several it fails and still describes the others: `isUseful` output is accepted. */
function runSmi(
  program: string,
  args: readonly string[],
  signal: AbortSignal | undefined,
  isUseful: (text: string) => boolean,
): Promise<{ text: string; code: number } | { reason: string }> {
  const options = {
    timeout: TIMEOUT_MS,
    killSignal: 'SIGKILL',
    maxBuffer: MAX_OUTPUT_BYTES,
    encoding: 'utf8',
    ...(signal === undefined ? {} : { signal }),
  } as const
  return new Promise((resolve) => {
    execFile(program, args, options, (error, text) => {
      if (error === null) return resolve({ text, code: 0 })
      if (error.code === 'ENOENT') return resolve({ reason: `${program} not found on this machine.` })
      if (error.code === INVALID_ARGUMENT || isUseful(text)) return resolve({ text, code: Number(error.code) })
      const output = text.trim().split('\n')[0]?.slice(0, 200).replace(/\.$/, '') ?? ''
      const outcome = error.killed === true ? `did not answer within ${TIMEOUT_MS / 1_000} s` : 'failed'
      resolve({ reason: `${program} ${outcome}${output === '' ? '' : `: ${output}`}.` })
    })
  })
}

/** Lines that are not a row of a GPU are messages about lost devices. Those GPUs count as missing. */
function readRows(text: string, queried: readonly Field[]): GpuFields[] {
  return text
    .split('\n')
    .map((line) => line.trim().split(', '))
    .filter((values) => values.length >= queried.length)
    .map((values) => {
      const last = queried.length - 1
      const row = [...values.slice(0, last), values.slice(last).join(', ')]
      return Object.fromEntries(queried.map((field, at) => [field, row[at]]))
    })
    .filter(({ uuid }: GpuFields) => uuid !== undefined && /^[\w-]{1,100}$/.test(uuid))
}

/** Flags are names of lines that say "Yes", by PCI address: `Unrepairable Memory`, `Pending` (of row remapping). */
export function readReport(text: string): { cuda?: string; flags: Map<string, Set<string>> } {
  const cuda = /^CUDA Version\s*: (\d+(?:\.\d+)*)$/m.exec(text)?.[1]
  const flags = new Map<string, Set<string>>()
  let current = new Set<string>()
  for (const line of text.split('\n')) {
    const address = /^GPU ([0-9A-F:.]+)$/i.exec(line.trimEnd())?.[1]
    if (address !== undefined) flags.set(address.toLowerCase(), (current = new Set()))
    const flag = /^\s+(\S.*?)\s*: Yes\s*$/.exec(line)?.[1]
    if (flag !== undefined) current.add(flag)
  }
  return { ...(cuda === undefined ? {} : { cuda }), flags }
}
