/**
 * Voltage Park: bare-metal rentals of one or more nodes with eight GPUs, and virtual machines from presets. Both are
 * named after our tag and take public keys as texts, so they leave nothing else at the vendor.
 *
 * The startup script is passed as a file and a command of cloud-init instead of user data.
 */
import type { ProviderCheck } from '../../../contract/provider.ts'
import {
  refused,
  unreadable,
  type Cloud,
  type CloudMachine,
  type CloudOrder,
  type CloudOutcome,
  type CloudRefusal,
  type CloudVendor,
} from '../cloud.ts'
import { CloudError, isRefused, type CloudHttp } from '../http.ts'
import { plainKeys } from '../user-data.ts'
import {
  anything,
  deployedMetal,
  deployedVm,
  metalRental,
  orBare,
  organization,
  storageVolume,
  virtualMachine,
  type Bare,
} from './api.ts'
import {
  machineIdOf,
  METAL_LOGIN_USER,
  resourceOf,
  showMetal,
  showVm,
  VM_LOGIN_USER,
  type Resource,
} from './machines.ts'
import { readOffers, type VoltageParkOffer } from './offers.ts'
import { readAll } from './pages.ts'
import { PortForwards, portTags } from './ports.ts'
import { VoltageParkVolumes } from './volumes.ts'

const METAL = '/api/v1/bare-metal/'
const VMS = '/api/v1/virtual-machines/'
const TAG = 'berth'
const STARTUP_PATH = '/var/lib/berth-startup.sh'

export const voltagePark: CloudVendor = {
  id: 'voltage-park',
  title: 'Voltage Park',
  baseUrl: 'https://cloud-api.voltagepark.com',
  credentials: [
    { name: 'apiToken', help: 'API token of the Voltage Park dashboard; valid for one year' },
    { name: 'suborder', help: 'Number of the sub-order of a contract, for bare metal', optional: true },
  ],
  // All locations are in the United States; their ids say no more.
  regions: { '*': 'us-central-1' },
  pace: { everyMs: 500 },
  billing: { from: 'create', incrementMs: 60_000, minimumMs: 0 },
  listLagMs: 30_000,
  callTimeoutMs: 60_000,
  // Installing bare metal takes about 15 minutes, and longer at busy hours.
  startLimitMs: 3_600_000,
  loginUser: VM_LOGIN_USER,
  metalLoginUser: METAL_LOGIN_USER,
  volumes: { serves: ['bare-metal'], attaches: ['bare-metal'], grows: true },
  refusalOf,
  open: ({ credentials, http }) => {
    const headers = { authorization: `Bearer ${credentials.apiToken ?? ''}` }
    return new VoltageParkCloud(http({ authorize: async () => headers }), credentials.suborder)
  },
}

class VoltageParkCloud implements Cloud {
  readonly volumes: VoltageParkVolumes
  readonly #http: CloudHttp
  readonly #suborder: string | undefined
  readonly #ports: PortForwards

  constructor(http: CloudHttp, suborder: string | undefined) {
    this.#http = http
    this.#suborder = suborder
    this.#ports = new PortForwards(http)
    this.volumes = new VoltageParkVolumes(http)
  }

  async check(signal: AbortSignal): Promise<ProviderCheck[]> {
    const { name } = await this.#http.read(organization, { path: '/api/v1/organization/', signal })
    const offers = await readOffers(this.#http, signal)
    const machines = await this.list('', signal)
    const volumes = await readAll(this.#http, storageVolume, '/api/v1/storage/', signal)
    const detail = `lists ${machines.length} machines and ${volumes.length} volumes`
    return [
      { check: 'reachable', result: 'passed', detail: `${name}, ${offers.length} offers` },
      { check: 'rights', result: 'passed', detail },
      { check: 'limits', result: 'not_tried', detail: 'the vendor does not report quotas' },
    ]
  }

  async offers(signal: AbortSignal): Promise<VoltageParkOffer[]> {
    return readOffers(this.#http, signal)
  }

  async create(order: CloudOrder<VoltageParkOffer>, signal: AbortSignal): Promise<CloudOutcome> {
    const script = order.startupScript
    if (script === undefined)
      return refused('no_capacity', 'Voltage Park takes scripts as user data, and this order has something else.')
    return this.#deploy(order, cloudInitOf(script), signal)
  }

  async destroy(id: string, signal: AbortSignal): Promise<void> {
    if (id === '') return
    const resource = resourceOf(id)
    const path = `${resource.kind === 'vm' ? VMS : METAL}${encodeURIComponent(resource.id)}`
    await this.#http.write(anything, { method: 'DELETE', path, signal }).catch((error: unknown) => {
      if (!(error instanceof CloudError) || error.status !== 404) throw error
    })
  }

  async list(tagPrefix: string, signal: AbortSignal): Promise<CloudMachine[]> {
    const [metal, vms] = await Promise.all([
      readAll(this.#http, orBare(metalRental), METAL, signal),
      readAll(this.#http, orBare(virtualMachine), VMS, signal),
    ])
    const isOurs = (one: { name: string; status?: string }): boolean =>
      one.name.startsWith(tagPrefix) && one.status !== 'Terminated'
    const show = <T extends object>(kind: Resource['kind'], one: T | Bare, showOne: (one: T) => CloudMachine) =>
      'unread' in one
        ? unreadable(voltagePark.title, { id: machineIdOf({ kind, id: one.id }), tag: one.name })
        : showOne(one)
    const complete = await Promise.all(
      vms.filter(isOurs).map(async (vm) => ('unread' in vm ? vm : this.#ports.complete(vm, signal))),
    )
    return [
      ...metal.filter(isOurs).map((one) => show('metal', one, showMetal)),
      ...complete.map((one) => show('vm', one, showVm)),
    ]
  }

  async companions(): Promise<[]> {
    return []
  }

  async removeCompanion(): Promise<void> {}

  async #deploy(
    { offer, ...order }: CloudOrder<VoltageParkOffer>,
    cloudInit: ReturnType<typeof cloudInitOf>,
    signal: AbortSignal,
  ): Promise<CloudOutcome> {
    const common = {
      name: order.tag,
      organization_ssh_keys: { mode: 'none' },
      ssh_keys: plainKeys(order.spec),
    }
    if (offer.kind === 'bare-metal') {
      const body = {
        ...common,
        location_id: offer.region,
        gpu_count: offer.gpus * order.units,
        network_type: offer.networkType,
        tags: [TAG],
        ...(this.#suborder === undefined || this.#suborder === '' ? {} : { suborder: Number(this.#suborder) }),
        cloudinit_script: cloudInit,
      }
      const { rental_id: id } = await this.#http.write(deployedMetal, { method: 'POST', path: METAL, body, signal })
      return { kind: 'created', id: machineIdOf({ kind: 'metal', id }) }
    }
    const body = {
      ...common,
      config_id: offer.presetId,
      tags: [TAG, ...portTags(order.spec.ports)],
      cloud_init: cloudInit,
    }
    const { vm_id: id } = await this.#http.write(deployedVm, { method: 'POST', path: `${VMS}instant`, body, signal })
    return { kind: 'created', id: machineIdOf({ kind: 'vm', id }) }
  }
}

function cloudInitOf(script: string) {
  const content = Buffer.from(script).toString('base64')
  const file = { path: STARTUP_PATH, content, encoding: 'b64', owner: 'root:root', permissions: '0700' }
  return { write_files: [file], runcmd: [STARTUP_PATH] }
}

/** undefined: the outcome is unknown. Refusals are prose, so all but malformed requests count as a lack of capacity. */
function refusalOf(error: unknown): CloudRefusal | undefined {
  if (!isRefused(error)) return undefined
  const reason = error.status === 422 ? 'rejected_by_provider' : 'no_capacity'
  return refused(reason, 'Voltage Park refused the order.')
}
