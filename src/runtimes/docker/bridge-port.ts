/**
 * Traffic between two ports of one bridge bypasses packet filters. Our containers are alone on their bridge; if someone
 * adds a second one, both ports are isolated: they reach the bridge itself, but not each other.
 */
import { z } from 'zod'
import { runIn } from './run-in.ts'

const linkList = z.array(
  z.object({
    /** Links of other kinds are listed as empty objects. */
    ifname: z.string().optional(),
    master: z.string().optional(),
    linkinfo: z.object({ info_slave_data: z.object({ isolated: z.boolean().optional() }).optional() }).optional(),
  }),
)

export async function isolatePorts(bridgePrefix: string, networkNamespace: string | undefined): Promise<void> {
  const text = await runIn(networkNamespace, 'ip', ['-j', '-d', 'link', 'show', 'type', 'bridge_slave'])
  const ports = linkList.parse(JSON.parse(text === '' ? '[]' : text))
  for (const { ifname, master, linkinfo } of ports) {
    if (ifname === undefined || master === undefined || !master.startsWith(bridgePrefix)) continue
    const isAlone = ports.filter((one) => one.master === master).length === 1
    if (isAlone || linkinfo?.info_slave_data?.isolated === true) continue
    await runIn(networkNamespace, 'ip', ['link', 'set', 'dev', ifname, 'type', 'bridge_slave', 'isolated', 'on'])
  }
}
