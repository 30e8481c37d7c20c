/**
 * GPU use from NVIDIA's DCGM exporter, where a cluster has one: a pod on each node, whose metrics name the pod of each
 * GPU. It is read through the port forwarding that Berth may use for any pod, so it needs no further right.
 */
import type { Duplex } from 'node:stream'
import { signalWithin } from '../../base/signal-within.ts'
import type { MachineUse } from '../driver.ts'
import type { Cluster } from './cluster.ts'
import { MANAGED_LABEL, MANAGER } from './names.ts'
import { podObject, type PodObject } from './objects.ts'
import { openPort } from './streams.ts'

export const EXPORTER = { labelSelector: 'app=nvidia-dcgm-exporter', port: 9_400 } as const
const READ_MS = 5_000
const MAX_TEXT_BYTES = 4 * 1_048_576

export type GpuUse = Omit<MachineUse['gpus'][number], 'index'>

const metrics = {
  DCGM_FI_DEV_GPU_UTIL: 'gpuUtilizationPercent',
  DCGM_FI_DEV_FB_USED: 'gpuMemoryUsedMib',
  DCGM_FI_DEV_GPU_TEMP: 'gpuTemperatureCelsius',
  DCGM_FI_DEV_POWER_USAGE: 'gpuPowerWatts',
} as const satisfies Record<string, keyof GpuUse>

/** Returns the GPUs of each pod (`namespace/name`), in the order of their numbers on the node. */
export function parseExporter(text: string): Map<string, GpuUse[]> {
  const gpusByPod = new Map<string, Map<number, GpuUse>>()
  for (const line of text.split('\n')) {
    const [, name = '', labelText = '', value] = /^(\w+)\{(.*)\} (\S+)/.exec(line) ?? []
    const metric = metrics[name as keyof typeof metrics]
    const labels = metric === undefined ? {} : labelsOf(labelText)
    const { pod, namespace } = labels
    const gpu = Number(labels['gpu'])
    if (metric === undefined || !pod || !namespace || !Number.isInteger(gpu)) continue
    const key = `${namespace}/${pod}`
    const gpus = gpusByPod.get(key) ?? new Map<number, GpuUse>()
    gpusByPod.set(key, gpus)
    const number = Number(value)
    const previous = gpus.get(gpu) ?? noUse
    gpus.set(gpu, { ...previous, [metric]: Number.isFinite(number) ? number : null })
  }
  return new Map(
    [...gpusByPod].map(([key, gpus]) => [key, [...gpus].toSorted(([a], [b]) => a - b).map(([, gpu]) => gpu)]),
  )
}

export interface GpuMemoryUse {
  readonly usedMib: number
  /** The exporter names a pod that has the GPU. */
  readonly hasPod: boolean
}

/** Returns the memory of all GPUs of a node, by their numbers there. */
export function parseMemory(text: string): Map<number, GpuMemoryUse> {
  const memoryByGpu = new Map<number, GpuMemoryUse>()
  for (const [, labelText = '', value] of text.matchAll(/^DCGM_FI_DEV_FB_USED\{(.*)\} (\S+)/gm)) {
    const labels = labelsOf(labelText)
    const gpu = Number(labels['gpu'])
    const usedMib = Number(value)
    if (!Number.isInteger(gpu) || !Number.isFinite(usedMib)) continue
    const previous = memoryByGpu.get(gpu)
    const hasPod = (labels['pod'] ?? '') !== '' || previous?.hasPod === true
    memoryByGpu.set(gpu, { usedMib: Math.max(usedMib, previous?.usedMib ?? 0), hasPod })
  }
  return memoryByGpu
}

const noUse: GpuUse = {
  gpuUtilizationPercent: null,
  gpuMemoryUsedMib: null,
  gpuTemperatureCelsius: null,
  gpuPowerWatts: null,
}

function labelsOf(text: string): Readonly<Record<string, string>> {
  const pairs = [...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)]
  return Object.fromEntries(pairs.map(([, name = '', value = '']) => [name, value.replaceAll(/\\(.)/g, '$1')]))
}

/** Lists the exporters of a cluster. */
export async function listExporters({ api }: Cluster, signal: AbortSignal): Promise<PodObject[]> {
  const { labelSelector } = EXPORTER
  const { items } = await api.list('/api/v1/pods', podObject, { query: { labelSelector }, signal })
  // A pod with our label belongs to a tenant, even if it calls itself an exporter.
  return items.filter(
    ({ metadata, status }) => metadata.labels?.[MANAGED_LABEL] !== MANAGER && status?.phase === 'Running',
  )
}

export async function readExporter(cluster: Cluster, exporter: PodObject, signal: AbortSignal): Promise<string> {
  const { name, namespace = '' } = exporter.metadata
  const timed = signalWithin(signal, READ_MS)
  const address = { cluster: cluster.config.name, namespace, name }
  const stream = await openPort(cluster.api, address, EXPORTER.port, timed)
  try {
    stream.write('GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n')
    return bodyOf(await textOf(stream, timed))
  } finally {
    stream.destroy()
  }
}

async function textOf(stream: Duplex, signal: AbortSignal): Promise<string> {
  const abort = (): void => void stream.destroy(new Error('The exporter did not answer in time.'))
  signal.addEventListener('abort', abort, { once: true })
  try {
    const pieces: Buffer[] = []
    let bytes = 0
    for await (const piece of stream as AsyncIterable<Buffer>) {
      bytes += piece.length
      if (bytes > MAX_TEXT_BYTES) throw new Error(`The exporter sent more than ${MAX_TEXT_BYTES} bytes.`)
      pieces.push(piece)
    }
    return Buffer.concat(pieces).toString('utf8')
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

function bodyOf(answer: string): string {
  const [, status = '', body] = /^HTTP\/1\.[01] (\d+)[^]*?\r\n\r\n([^]*)$/.exec(answer) ?? []
  if (status !== '200' || body === undefined) throw new Error(`The exporter answered ${status || 'nothing'}.`)
  return body
}
