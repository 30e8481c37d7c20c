/**
 * The instances into which MIG splits a GPU, each with memory and processors of its own. `nvidia-smi -L` has their
 * profiles and UUIDs, the XML report their memory; both number the instances of a GPU in the same order.
 */
export interface MigInstance {
  readonly uuid: string
  readonly gpuUuid: string
  /** `1g.18gb`: a seventh of the processors, and 18 GB. */
  readonly profile: string
  readonly memoryTotalMib: number | null
  readonly memoryUsedMib: number | null
}

/** The form of `nvidia-smi -L` and that of `nvidia-smi -q -x`. */
export function readInstances(list: string, details: string): MigInstance[] {
  const memory = memoryByInstance(details)
  let gpuUuid = ''
  return list.split('\n').flatMap((line) => {
    gpuUuid = /^GPU \d+: .*\(UUID: (GPU-[\w-]{1,96})\)$/.exec(line)?.[1] ?? gpuUuid
    const [, profile, index, uuid] =
      /^\s+MIG ([\w.+]{1,40})\s+Device\s+(\d{1,3}): \(UUID: (MIG-[\w-]{1,96})\)$/.exec(line) ?? []
    if (profile === undefined || index === undefined || uuid === undefined) return []
    const { total = null, used = null } = memory.get(`${gpuUuid} ${index}`) ?? {}
    return [{ uuid, gpuUuid, profile, memoryTotalMib: total, memoryUsedMib: used }]
  })
}

interface Memory {
  readonly total: number | null
  readonly used: number | null
}

/** The keys have the UUID of the GPU and the number of the instance. */
function memoryByInstance(details: string): Map<string, Memory> {
  const gpus = details.split(/<gpu id=/).slice(1)
  return new Map(
    gpus.flatMap((gpu) => {
      const uuid = /<uuid>(GPU-[\w-]{1,96})<\/uuid>/.exec(gpu)?.[1] ?? ''
      const instances = gpu.split('<mig_device>').slice(1)
      return instances.map((instance): [string, Memory] => {
        const index = /<index>(\d{1,3})<\/index>/.exec(instance)?.[1] ?? ''
        const frame = /<fb_memory_usage>(.*?)<\/fb_memory_usage>/s.exec(instance)?.[1] ?? ''
        return [`${uuid} ${index}`, { total: mibOf(frame, 'total'), used: mibOf(frame, 'used') }]
      })
    }),
  )
}

/** null for `N/A` and the like. */
function mibOf(xml: string, element: string): number | null {
  const digits = new RegExp(`<${element}>(\\d{1,9}) MiB</${element}>`).exec(xml)?.[1]
  return digits === undefined ? null : Number.parseInt(digits, 10)
}
