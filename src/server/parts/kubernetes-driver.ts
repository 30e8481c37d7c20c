/** Opens the driver of Kubernetes clusters, with the file that describes them and what it needs from the database. */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { App } from '../../app/app.ts'
import { keepRentalLog } from '../../app/rental/rental-log.ts'
import { resolveProgram } from '../../app/account/secret.ts'
import { idOfTag, isLiving, tagOf, tagPrefix } from '../../domain/rental.ts'
import { emptyWorkload, programOf } from '../../domain/workload.ts'
import type { Driver } from '../../drivers/driver.ts'
import { Cluster } from '../../drivers/kubernetes/cluster.ts'
import { parseClusters, type ClusterConfig } from '../../drivers/kubernetes/config.ts'
import { kubernetesDriver } from '../../drivers/kubernetes/driver.ts'
import { readKubeconfig, readServiceAccount, type ClusterAccess } from '../../drivers/kubernetes/kubeconfig.ts'
import type { KubernetesWorld } from '../../drivers/kubernetes/world.ts'
import { assignRentalPorts, listClaimOrders, listPodOrders } from '../../store/rental/pod-order.ts'
import { findRental, type Rental } from '../../store/rental/rental.ts'
import { readVolumes } from '../../store/volume/volume.ts'
import { podAuthorization } from '../hosts/pod-download.ts'
import { SettingsError, type Settings } from '../settings.ts'
import type { Context, Part } from './part.ts'

/** A change of many pods at once is one wake-up. */
const WAKE_MS = 100
const loops = { node: 'inventory', pod: 'observe' } as const

export interface KubernetesPart extends Part {
  readonly driver: Driver
}

export async function openKubernetes(
  { settings, clock, log }: Context,
  app: Pick<App, 'database' | 'clock' | 'vault' | 'installationId'>,
): Promise<KubernetesPart> {
  const warn = (error: unknown, what: string): void => log.warn({ err: error }, what)
  const waking = new Map<string, NodeJS.Timeout>()
  const changed = (what: 'node' | 'pod'): void => {
    if (waking.has(what)) return
    const wake = (): void => {
      waking.delete(what)
      app.database.onCommit(new Set([loops[what]]))
    }
    waking.set(what, setTimeout(wake, WAKE_MS))
  }
  if (settings.kubernetes === undefined) throw new SettingsError('The driver kubernetes needs BERTH_KUBERNETES')
  const configured = await readClusters(settings.kubernetes)
  const clusters = configured.map(
    (one) => new Cluster({ ...one, tagPrefix: tagPrefix(app.installationId), changed, warn }),
  )
  const world = kubernetesWorld(app, settings.relay.ports)
  return {
    driver: kubernetesDriver({ clusters, world, clock, relayHost: settings.relay.publicHost, warn }),
    close: async () => {
      await Promise.all(clusters.map((cluster) => cluster.close()))
      for (const timer of waking.values()) clearTimeout(timer)
    },
  }
}

/** An error in the file, or in a kubeconfig that it names, stops the start. A cluster that is down does not. */
async function readClusters({
  file,
  serviceUrl,
}: NonNullable<Settings['kubernetes']>): Promise<Array<{ config: ClusterConfig; access: ClusterAccess }>> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new SettingsError(`BERTH_KUBERNETES: ${file} cannot be read: ${String(error)}`)
  })
  const read = parseClusters(text, path.dirname(file))
  if (read.kind === 'faulty') throw new SettingsError(`BERTH_KUBERNETES: ${read.faults.join('; ')}`)
  const faults: string[] = []
  const reachable: Array<{ config: ClusterConfig; access: ClusterAccess }> = []
  for (const config of read.clusters) {
    const { name, kubeconfig, context } = config
    const reading = kubeconfig === undefined ? readServiceAccount(serviceUrl) : readKubeconfig(kubeconfig, context)
    await reading.then(
      (access) => reachable.push({ config, access }),
      (error: Error) => faults.push(`cluster ${name}: kubeconfig: ${error.message}`),
    )
  }
  if (faults.length > 0) throw new SettingsError(`BERTH_KUBERNETES: ${faults.join('; ')}`)
  return reachable
}

function kubernetesWorld(
  app: Pick<App, 'database' | 'clock' | 'vault' | 'installationId'>,
  range: Settings['relay']['ports'],
): KubernetesWorld {
  const { installationId } = app
  /** undefined: no rental of this database has the tag. */
  const rentalOf = async (tag: string): Promise<Rental | undefined> => {
    const id = idOfTag(installationId, 'rental', tag)
    const rental = id === undefined ? undefined : await findRental(app.database.db, id)
    return rental !== undefined && tagOf(installationId, 'rental', rental) === tag ? rental : undefined
  }
  return {
    orderOf: async (tag) => {
      const rental = await rentalOf(tag)
      if (rental === undefined) return undefined
      const program = programOf(rental.spec.workload ?? emptyWorkload)
      return {
        accountId: rental.account_id,
        program: await resolveProgram(app, rental.id, program),
        ...(program.weights === undefined ? {} : { downloadAs: podAuthorization(app, tag) }),
      }
    },
    listOrders: async (prefix) => {
      const orders = (await listPodOrders(app.database.db, 'kubernetes')).map(({ status, ...order }) => ({
        ...order,
        tag: tagOf(installationId, 'rental', order),
        isEnding: !isLiving(status),
      }))
      return orders.filter(({ tag }) => tag.startsWith(prefix))
    },
    accountOfVolume: async (tag) => {
      const id = idOfTag(installationId, 'volume', tag)
      const volume = id === undefined ? undefined : (await readVolumes(app.database.db, [id])).get(id)
      return volume !== undefined && tagOf(installationId, 'volume', volume) === tag ? volume.account_id : undefined
    },
    listVolumes: async (prefix) => {
      const volumes = (await listClaimOrders(app.database.db, 'kubernetes')).map(
        ({ externalId, machineId, ...row }) => ({
          tag: tagOf(installationId, 'volume', row),
          externalId,
          machineId,
        }),
      )
      return volumes.filter(({ tag }) => tag.startsWith(prefix))
    },
    openPorts: async (tag, ports) => {
      const rental = ports.length === 0 ? undefined : await rentalOf(tag)
      return rental === undefined ? new Map() : assignRentalPorts(app.database.db, rental.id, ports, range)
    },
    saveLog: async (tag, text) => {
      const rental = await rentalOf(tag)
      if (rental !== undefined) await keepRentalLog(app, { id: rental.id, accountId: rental.account_id }, text)
    },
  }
}
