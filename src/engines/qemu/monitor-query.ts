/** What a monitor is asked, with answers that are read strictly. */
import { z } from 'zod'
import type { Monitor } from './monitor.ts'

const blocks = z.array(z.object({ qdev: z.string().optional() }))
const status = z.object({ status: z.string() })

/** Devices with a medium, by the names that we gave them. */
export async function queryDevices(monitor: Monitor): Promise<string[]> {
  return blocks.parse(await monitor.execute('query-block')).flatMap(({ qdev }) => qdev ?? [])
}

export async function queryStatus(monitor: Monitor): Promise<string> {
  return status.parse(await monitor.execute('query-status')).status
}

/** Ports on the host's loopback, by the port inside. The host has chosen them; only QEMU knows which. */
export async function queryForwards(monitor: Monitor): Promise<Map<number, number>> {
  const text = z.string().parse(await monitor.execute('human-monitor-command', { 'command-line': 'info usernet' }))
  const lines = text.matchAll(/TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s+\S+\s+(\d+)\s/g)
  return new Map([...lines].map(([, outside, inside]) => [Number(inside), Number(outside)]))
}
