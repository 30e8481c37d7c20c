/**
 * Measures the use of a rented host with one short script every ten seconds. The script reads totals of the kernel, from
 * which rates are derived, and what the NVIDIA driver reports about the GPUs.
 */
import type { HostMetrics } from '../../contract/agent.ts'
import type { MetalAccess } from './access.ts'
import { runOn } from './host-inspection.ts'
import { constantScript } from './script.ts'
import type { SshHost } from './ssh.ts'

const MEASURE_MS = 15_000
/** This is a little less than the interval of samples, since hosts are checked every three seconds. */
const SAMPLE_EVERY_MS = 8_000
const KIB_PER_MIB = 1_024
const KIB_PER_GB = 1_048_576
const MAX_GPUS = 64

/** The script skips bridges, bonds and virtual interfaces, which count the same traffic again. */
const measureScript = constantScript(
  'measure',
  ['user', 'gpus'],
  String.raw`
IFS= read -r line < /proc/stat && printf '%s\n' "$line"
sed -n 's/^MemTotal: *\([0-9]*\) kB/memory-total \1/p; s/^MemAvailable: *\([0-9]*\) kB/memory-free \1/p' /proc/meminfo
df -kP / | tail -n 1 | { read -r device total used free rest; printf 'disk-used %s\ndisk-free %s\n' "$used" "$free"; }
sed 's/:/ /' /proc/net/dev | while read -r name rx a b c d e f g tx rest; do
  case $name in lo|Inter-*|face*|veth*|docker*|br-*|virbr*|bond*) continue ;; esac
  printf 'network %s %s\n' "$rx" "$tx"
done
uid=$(uid_of "$user")
if [ -n "$uid" ] && grep -qE "^Uid:.*[[:space:]]$uid([[:space:]]|$)" /proc/[0-9]*/status 2> /dev/null; then echo 'program yes'; fi
if [ "$gpus" = yes ] && command -v nvidia-smi > /dev/null && command -v timeout > /dev/null; then
  timeout 10 nvidia-smi --query-gpu=index,utilization.gpu,memory.used,memory.total,power.draw,temperature.gpu \
    --format=csv,noheader,nounits | sed 's/^/gpu /'
fi
exit 0
`,
)

interface Totals {
  readonly atMs: number
  readonly cpuBusy: number | null
  readonly cpuAll: number | null
  readonly rxBytes: number
  readonly txBytes: number
}

export class HostMeter {
  readonly #host: SshHost
  readonly #access: MetalAccess
  readonly #hasGpus: boolean
  #last: Totals | undefined
  /** The time at which the tenant last had a process. Until the first measurement the host counts as in use. */
  #usedAtMs = performance.now()

  constructor(host: SshHost, access: MetalAccess, hasGpus: boolean) {
    this.#host = host
    this.#access = access
    this.#hasGpus = hasGpus
  }

  async read(workloadId: string, signal: AbortSignal): Promise<HostMetrics> {
    const input = { user: this.#access.tenantUser, gpus: this.#hasGpus ? 'yes' : 'no' }
    const lines = await runOn(this.#host, measureScript, input, signal, MEASURE_MS)
    const textsOf = (word: string): string[] => lines.filter(([name]) => name === word).map(([, text]) => text)
    const valueOf = (word: string): number | null => numberOf(textsOf(word)[0])
    const [total, free] = [valueOf('memory-total'), valueOf('memory-free')]
    const usedKib = total === null || free === null ? null : Math.max(0, total - free)
    const now = totalsOf(textsOf('cpu')[0] ?? '', textsOf('network'))
    const rates = ratesBetween(this.#last, now)
    this.#last = now
    const hasProgram = textsOf('program').length > 0
    if (hasProgram) this.#usedAtMs = now.atMs
    const [diskUsed, diskFree] = [valueOf('disk-used'), valueOf('disk-free')]
    return {
      type: 'metrics',
      gpus: textsOf('gpu').slice(0, MAX_GPUS).flatMap(gpuOf),
      cpuPercent: rates.cpuPercent,
      memoryUsedGb: usedKib === null ? null : usedKib / KIB_PER_GB,
      diskFreeGb: diskFree === null ? null : diskFree / KIB_PER_GB,
      workloads: [
        {
          id: workloadId,
          cpuPercent: rates.cpuPercent,
          memoryUsedMib: usedKib === null ? null : usedKib / KIB_PER_MIB,
          memoryTotalMib: total === null ? null : total / KIB_PER_MIB,
          diskUsedMib: diskUsed === null ? null : diskUsed / KIB_PER_MIB,
          networkRxBytesPerSecond: rates.rx,
          networkTxBytesPerSecond: rates.tx,
          active: hasProgram ? ['program'] : [],
          quietSeconds: Math.max(0, (now.atMs - this.#usedAtMs) / 1_000),
        },
      ],
    }
  }
}

/** Reads at most every ten seconds, one at a time and in the background: a host whose GPU driver hangs is still reported. */
export class Sampler {
  readonly #take: (metrics: HostMetrics) => void
  readonly #warn: (error: unknown) => void
  #isReading = false
  #readAtMs = Number.NEGATIVE_INFINITY
  #failure: string | undefined

  /** `warn` is not called again while reads keep failing for the same cause. */
  constructor(take: (metrics: HostMetrics) => void, warn: (error: unknown) => void) {
    this.#take = take
    this.#warn = warn
  }

  tick(read: () => Promise<HostMetrics>, signal: AbortSignal): void {
    if (this.#isReading || performance.now() - this.#readAtMs < SAMPLE_EVERY_MS) return
    this.#isReading = true
    this.#readAtMs = performance.now()
    void this.#read(read, signal).finally(() => (this.#isReading = false))
  }

  async #read(read: () => Promise<HostMetrics>, signal: AbortSignal): Promise<void> {
    try {
      this.#take(await read())
      this.#failure = undefined
    } catch (error) {
      const cause = error instanceof Error ? error.message : String(error)
      if (!signal.aborted && cause !== this.#failure) this.#warn(error)
      this.#failure = cause
    }
  }
}

/** `cpu  user nice system idle iowait irq softirq steal guest …`; user already includes guest. */
function totalsOf(cpu: string, network: readonly string[]): Totals {
  const times = cpu.trim().split(/\s+/).slice(0, 8).map(Number)
  const isKnown = times.length >= 4 && times.every((time) => Number.isFinite(time))
  const all = times.reduce((sum, time) => sum + time, 0)
  const bytes = network.map((line) => line.split(' ').map((count) => numberOf(count) ?? 0))
  return {
    atMs: performance.now(),
    cpuAll: isKnown ? all : null,
    cpuBusy: isKnown ? all - (times[3] ?? 0) - (times[4] ?? 0) : null,
    rxBytes: bytes.reduce((sum, [rx = 0]) => sum + rx, 0),
    txBytes: bytes.reduce((sum, [, tx = 0]) => sum + tx, 0),
  }
}

/** A rate is null after the first measurement, and when the kernel has restarted its counters, as after a reboot. */
function ratesBetween(
  from: Totals | undefined,
  to: Totals,
): { cpuPercent: number | null; rx: number | null; tx: number | null } {
  const seconds = from === undefined ? 0 : (to.atMs - from.atMs) / 1_000
  const rate = (previous: number, current: number): number | null =>
    current < previous || seconds <= 0 ? null : (current - previous) / seconds
  if (from === undefined) return { cpuPercent: null, rx: null, tx: null }
  const all = to.cpuAll === null || from.cpuAll === null ? 0 : to.cpuAll - from.cpuAll
  const busyTicks = (to.cpuBusy ?? 0) - (from.cpuBusy ?? 0)
  return {
    cpuPercent: all <= 0 ? null : Math.min(Math.max((busyTicks / all) * 100, 0), 100),
    rx: rate(from.rxBytes, to.rxBytes),
    tx: rate(from.txBytes, to.txBytes),
  }
}

/** `0, 87, 61234, 81559, 512.30, 61`; a value that the NVIDIA driver does not know is `[N/A]`. */
function gpuOf(line: string): HostMetrics['gpus'] {
  const [index, utilization, usedMib, totalMib, power, temperature] = line.split(',').map((part) => numberOf(part))
  if (index === undefined || index === null || !Number.isInteger(index)) return []
  return [
    {
      index,
      utilizationPercent: utilization ?? null,
      memoryUsedMib: usedMib ?? null,
      memoryTotalMib: totalMib ?? null,
      powerWatts: power ?? null,
      temperatureCelsius: temperature ?? null,
    },
  ]
}

function numberOf(text: string | undefined): number | null {
  const value = text === undefined || text.trim() === '' ? Number.NaN : Number(text.trim())
  return Number.isFinite(value) && value >= 0 ? value : null
}
