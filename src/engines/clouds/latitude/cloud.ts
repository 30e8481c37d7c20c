/**
 * Latitude.sh: bare metal with whole physical machines, sold by the hour. A server is found again by its hostname, which
 * is our tag. Its user data and SSH key are objects of their own under the tag, and outlive it.
 *
 * A public key exists once per project: an order whose key is there already uses that one, and its user data has all keys.
 */
import { counted } from '../../../base/counted.ts'
import { formatUsd, parseUsd, type NanoUsd, zeroUsd } from '../../../base/money.ts'
import type { Clock } from '../../../base/instant.ts'
import type { ProviderData } from '../../../contract/provider-data.ts'
import type { ProviderCheck } from '../../../contract/provider.ts'
import {
  refused,
  type Cloud,
  type CloudCompanion,
  type CloudMachine,
  type CloudOffer,
  type CloudOrder,
  type CloudOutcome,
  type CloudRefusal,
  type CloudVendor,
} from '../cloud.ts'
import { CloudError, isRefused, type CloudHttp } from '../http.ts'
import { gpuOf } from '../offer.ts'
import { plainKeys } from '../user-data.ts'
import {
  anything,
  createdServer,
  createdSshKey,
  createdUserData,
  sshKeys,
  userDatas,
  type Plan,
  type Server,
} from './api.ts'
import { readServers } from './pages.ts'
import { coresOf, gpuOfPlan, offersOf, Plans, priceAt, storageGbOf } from './plans.ts'

const OPERATING_SYSTEM = 'ubuntu24_ml_in_a_box'
const LOGIN_USER = 'ubuntu'

export const latitude: CloudVendor = {
  id: 'latitude',
  title: 'Latitude.sh',
  baseUrl: 'https://api.latitude.sh',
  credentials: [
    { name: 'apiKey', help: 'API key of the Latitude.sh dashboard' },
    { name: 'project', help: 'Slug or id of an on-demand project' },
    { name: 'operatingSystem', help: `Slug of an operating system (default: ${OPERATING_SYSTEM})`, optional: true },
  ],
  // Bare metal has one region in the United States.
  regions: {
    ASH: 'us-central-1',
    CHI: 'us-central-1',
    DAL: 'us-central-1',
    LAX: 'us-central-1',
    MIA: 'us-central-1',
    MIA2: 'us-central-1',
    NYC: 'us-central-1',
    LON: 'uk-southeast-3',
    FRA: 'eu-west-3',
  },
  pace: { everyMs: 500 },
  billing: { from: 'create', incrementMs: 3_600_000, minimumMs: 0 },
  listLagMs: 30_000,
  callTimeoutMs: 60_000,
  loginUser: LOGIN_USER,
  refusalOf,
  open: ({ credentials, clock, http }) => {
    const accept = 'application/vnd.api+json'
    const headers = { authorization: `Bearer ${credentials.apiKey ?? ''}`, accept }
    return new LatitudeCloud(http({ authorize: async () => headers }), clock, {
      project: credentials.project ?? '',
      operatingSystem: credentials.operatingSystem || OPERATING_SYSTEM,
    })
  },
}

interface Settings {
  readonly project: string
  readonly operatingSystem: string
}

class LatitudeCloud implements Cloud {
  readonly #http: CloudHttp
  readonly #settings: Settings
  readonly #plans: Plans

  constructor(http: CloudHttp, clock: Clock, settings: Settings) {
    this.#http = http
    this.#settings = settings
    this.#plans = new Plans(http, clock)
  }

  async check(signal: AbortSignal): Promise<ProviderCheck[]> {
    const plans = await this.#plans.read(signal)
    const servers = await readServers(this.#http, this.#settings.project, signal)
    const companions = await this.companions('', signal)
    const detail = `lists ${counted(servers.length, 'server')} and ${companions.length} SSH keys and user data`
    return [
      { check: 'reachable', result: 'passed', detail: `${counted(plans.length, 'plan')} with GPUs` },
      { check: 'rights', result: 'passed', detail },
      { check: 'limits', result: 'not_tried', detail: 'the vendor does not report quotas' },
    ]
  }

  async offers(signal: AbortSignal): Promise<CloudOffer[]> {
    return (await this.#plans.read(signal)).flatMap(offersOf)
  }

  async create(order: CloudOrder, signal: AbortSignal): Promise<CloudOutcome> {
    const { tag, offer } = order
    const attributes = {
      project: this.#settings.project,
      plan: offer.type,
      site: offer.region,
      operating_system: this.#settings.operatingSystem,
      hostname: tag,
      ssh_keys: [await this.#sshKey(tag, plainKeys(order.spec)[0] ?? '', signal)],
      user_data: await this.#userData(order, signal),
      billing: 'hourly',
    }
    const body = { data: { type: 'servers', attributes } }
    const { data } = await this.#http.write(createdServer, { method: 'POST', path: '/servers', body, signal })
    return { kind: 'created', id: data.id }
  }

  async destroy(id: string, signal: AbortSignal): Promise<void> {
    if (id !== '') await this.#delete(`/servers/${encodeURIComponent(id)}`, signal)
  }

  async list(tagPrefix: string, signal: AbortSignal): Promise<CloudMachine[]> {
    const all = await readServers(this.#http, this.#settings.project, signal)
    const ours = all.filter(({ attributes }) => attributes.hostname?.startsWith(tagPrefix) === true)
    if (ours.length === 0) return []
    const plans = await this.#plans.known(signal)
    const found = ours.map((server) => {
      const plan = plans.get(server.attributes.plan?.slug ?? '')
      return { server, plan, price: priceAt(plan, server.attributes.region?.site?.slug ?? '') }
    })
    // What no plan tells any more is in the description of the user data. If that is gone too, only the bill tells.
    const noted = found.some(({ price }) => price === undefined) ? await this.#notedPrices(signal) : undefined
    return found.map(({ server, plan, price }) =>
      showServer(server, plan, price ?? noted?.get(server.attributes.hostname ?? '') ?? zeroUsd),
    )
  }

  async companions(tagPrefix: string, signal: AbortSignal): Promise<CloudCompanion[]> {
    const query = { 'filter[project]': this.#settings.project }
    const keys = await this.#http.read(sshKeys, { path: '/ssh_keys', query, signal })
    const scripts = await this.#http.read(userDatas, { path: '/user_data', query, signal })
    const all = [
      ...keys.data.map(({ id, attributes }) => ({ id: `ssh_keys/${id}`, tag: attributes.name ?? '', what: 'ssh-key' })),
      ...scripts.data.map(({ id, attributes }) => ({
        id: `user_data/${id}`,
        tag: noteOf(attributes.description).tag,
        what: 'user-data',
      })),
    ]
    return all.filter(({ tag }) => tag.startsWith(tagPrefix))
  }

  async removeCompanion({ id }: Pick<CloudCompanion, 'id'>, signal: AbortSignal): Promise<void> {
    const [kind = '', ...rest] = id.split('/')
    await this.#delete(`/${kind === 'ssh_keys' ? kind : 'user_data'}/${encodeURIComponent(rest.join('/'))}`, signal)
  }

  /** The id of the key of an earlier attempt, of another order with the same key, or of a new one. */
  async #sshKey(tag: string, publicKey: string, signal: AbortSignal): Promise<string> {
    const known = await this.#findKey(tag, publicKey, signal)
    if (known !== undefined) return known
    const attributes = { name: tag, public_key: publicKey, project: this.#settings.project }
    const body = { data: { type: 'ssh_keys', attributes } }
    try {
      return (await this.#http.write(createdSshKey, { method: 'POST', path: '/ssh_keys', body, signal })).data.id
    } catch (error) {
      // Another order may have added it meanwhile.
      const taken = refusalOf(error) === undefined ? undefined : await this.#findKey(tag, publicKey, signal)
      if (taken === undefined) throw error
      return taken
    }
  }

  async #findKey(tag: string, publicKey: string, signal: AbortSignal): Promise<string | undefined> {
    const query = { 'filter[project]': this.#settings.project }
    const { data } = await this.#http.read(sshKeys, { path: '/ssh_keys', query, signal })
    const own = data.find(({ attributes }) => attributes.name === tag)
    const same = data.find(({ attributes }) => plainKey(attributes.public_key ?? '') === publicKey)
    return (own ?? same)?.id
  }

  async #userData({ tag, offer, userData }: CloudOrder, signal: AbortSignal): Promise<string> {
    const query = { 'filter[project]': this.#settings.project }
    const { data } = await this.#http.read(userDatas, { path: '/user_data', query, signal })
    const known = data.find(({ attributes }) => noteOf(attributes.description).tag === tag)
    if (known !== undefined) return known.id
    const attributes = {
      description: `${tag} ${formatUsd(offer.costPerHour)}`,
      content: Buffer.from(userData).toString('base64'),
      project: this.#settings.project,
    }
    const body = { data: { type: 'user_data', attributes } }
    return (await this.#http.write(createdUserData, { method: 'POST', path: '/user_data', body, signal })).data.id
  }

  async #notedPrices(signal: AbortSignal): Promise<ReadonlyMap<string, NanoUsd>> {
    const query = { 'filter[project]': this.#settings.project }
    const { data } = await this.#http.read(userDatas, { path: '/user_data', query, signal })
    const notes = data.map(({ attributes }) => noteOf(attributes.description))
    return new Map(notes.flatMap(({ tag, price }) => (price === undefined ? [] : [[tag, price] as const])))
  }

  async #delete(path: string, signal: AbortSignal): Promise<void> {
    await this.#http.write(anything, { method: 'DELETE', path, signal }).catch((error: unknown) => {
      if (!(error instanceof CloudError) || error.status !== 404) throw error
    })
  }
}

/** Without its comment. */
function plainKey(key: string): string {
  return key.split(' ').slice(0, 2).join(' ')
}

/** The description of user data: the tag of its order, and the price per hour at that time. */
function noteOf(description: string | null | undefined): { readonly tag: string; readonly price: NanoUsd | undefined } {
  const [tag = '', price = ''] = (description ?? '').split(' ')
  return { tag, price: parseUsd(price) }
}

function showServer({ id, attributes }: Server, plan: Plan | undefined, costPerHour: NanoUsd): CloudMachine {
  const { hostname, status, primary_ipv4: ip } = attributes
  const base = { id, tag: hostname ?? '', costPerHour }
  switch (status) {
    case 'on':
      if (ip === undefined || ip === null || ip === '') return { ...base, state: 'starting' }
      return { ...base, state: 'running', ...(plan === undefined ? {} : { data: dataOf(plan, ip) }) }
    case 'deploying':
      return { ...base, state: 'starting', message: 'installing' }
    case 'failed_deployment':
      return { ...base, state: 'failed', failure: 'boot_failed', message: 'Latitude.sh could not install the machine.' }
    case 'off':
      return { ...base, state: 'unreachable', message: 'The machine is turned off.' }
    default:
      return { ...base, state: 'unreachable', message: `Latitude.sh reports the state ${status}.` }
  }
}

function dataOf(plan: Plan, ip: string): ProviderData {
  const gpu = gpuOfPlan(plan)
  const formFactor = gpuOf(gpu?.text ?? '')?.formFactor
  return {
    providerId: 'latitude',
    resources: {
      cpuModel: plan.specs.cpu.type,
      cpuCount: coresOf(plan),
      gpuCount: gpu?.count ?? 0,
      ramGb: plan.specs.memory.total,
      storageGb: storageGbOf(plan),
    },
    sshNetworking: [{ host: ip, port: 22, user: LOGIN_USER }],
    nodeNetworking: [{ publicIp: ip, privateIp: '' }],
    networkType: 'ethernet',
    ...(formFactor === undefined || formFactor === null ? {} : { gpuFormFactor: formFactor }),
  }
}

/** undefined: the outcome is unknown. A lack of stock is prose, so only malformed requests are told apart from it. */
function refusalOf(error: unknown): CloudRefusal | undefined {
  if (!isRefused(error)) return undefined
  const reason = error.status === 400 ? 'refused_by_engine' : 'no_capacity'
  return refused(reason, `Latitude.sh refused the order: ${error.status}.`)
}
