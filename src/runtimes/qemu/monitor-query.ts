/** Monitor queries with validated answers. */
import { z } from 'zod'
import type { Monitor } from './monitor.ts'

const blocks = z.array(z.object({ qdev: z.string().optional() }))
const status = z.object({ status: z.string() })

/** Devices with a medium, by our names. */
export async function queryDevices(monitor: Monitor): Promise<string[]> {
  return blocks.parse(await monitor.execute('query-block')).flatMap(({ qdev }) => qdev ?? [])
}

export async function queryStatus(monitor: Monitor): Promise<string> {
  return status.parse(await monitor.execute('query-status')).status
}

/** Forwarded loopback ports by guest port; the host picked them, so only QEMU knows. */
export async function queryForwards(monitor: Monitor): Promise<Map<number, number>> {
  const text = z.string().parse(await monitor.execute('human-monitor-command', { 'command-line': 'info usernet' }))
  const lines = text.matchAll(/TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s+\S+\s+(\d+)\s/g)
  return new Map([...lines].map(([, outside, inside]) => [Number(inside), Number(outside)]))
}
