/** A request a reader can paste, for each operation. The bodies are typed and tested: the operation accepts each. */
import type { Api, OperationId } from '../contract/api.ts'
import type { BodyInputOf, Endpoint } from '../contract/endpoint.ts'
import { html, type Markup } from './markup.ts'

type WithBody = { [Id in OperationId]: BodyInputOf<Api[Id]> extends undefined ? never : Id }[OperationId]

const conversation = [{ role: 'user' as const, content: 'What is a berth?' }]
const picture = { model_name: 'pictogram', prompt: 'a red apple beside a blue cup', width: 512, height: 512 }

export const exampleBodies: { readonly [Id in WithBody]: BodyInputOf<Api[Id]> } = {
  createBareMetalRental: { networkType: 'infiniband', gpuCount: 8, gpuType: 'h100', label: 'training' },
  terminateBareMetalRental: { rentalId: 17 },
  createVirtualMachineRental: { gpuCount: 1, gpuType: 'h100', region: 'us-central-1', label: 'notebook' },
  terminateVirtualMachineRental: { rentalId: 17, reason: 'done' },
  changeRental: { label: 'training, run 2', spendingLimitUsd: '250.00' },
  requestReservation: { gpuCount: 512 },
  createVolume: { region: 'us-central-1', label: 'datasets', sizeInGb: 1024 },
  attachVolume: { storageVolumeId: 5, rentalIds: [17] },
  detachVolume: { storageVolumeId: 5, rentalIds: [17] },
  terminateVolume: { storageVolumeId: 5 },
  getRequestCost: { requestIds: ['req_0Jk3Yv1mT9bQeX5sLw2Ra'] },
  listMachines: { filters: { gpu_model: 'h100', available_only: true } },
  createInstance: { cluster_name: 'harbour', node_name: 'harbour-01', gpu_count: 1 },
  terminateInstance: { id: 'brave-teal-otter' },
  createCheapestInstance: { gpuModel: 'h100', gpuCount: 1, userMetadata: { job: 'nightly' } },
  changeInstance: { label: 'notebook, run 2', spendingLimitUsd: '40.00' },
  createChatCompletion: { model: 'tinyllama-1.1b-chat', messages: conversation, max_tokens: 200 },
  createCompletion: { model: 'tinyllama-1.1b-chat', prompt: 'A berth is', max_tokens: 40 },
  createEmbedding: { model: 'all-minilm-l6-v2', input: ['a ship', 'a harbour'] },
  generateImage: picture,
  generateImageBySecondPath: picture,
  generateAudio: { text: 'Welcome aboard.', speed: 1 },
  changeAccountSettings: { keepsBodies: true },
  addMember: { email: 'ada@example.com', name: 'Ada', role: 'member' },
  changeMember: { role: 'viewer' },
  createApiKey: { name: 'notebook', scopes: ['inference', 'compute:read'], monthlyLimitUsd: '50.00' },
  addSshKey: { name: 'laptop', publicKey: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ9f1mO0kq ada@laptop' },
  createWebhook: { url: 'https://example.com/berth', eventTypes: ['rental.running', 'rental.failed'] },
  changeWebhook: { enabled: false },
  changeSuppliedMachine: { pricePerGpuHourUsd: '1.89', listed: true },
  createAccount: { name: 'Example Labs', ownerEmail: 'ada@example.com' },
  changeAccount: { quota: { gpus: 512 }, reason: 'contract signed' },
  restoreOwner: { ownerEmail: 'ada@example.com', reason: 'the only key was lost' },
  creditAccount: { amountUsd: '100.00', reason: 'invoice 2026-114 paid' },
  adjustAccount: { amountUsd: '-2.50', reason: 'charged twice by mistake' },
  refundCharge: { amountUsd: '12.00', rentalId: 17, reason: 'machine was faulty' },
  payOutSupplier: { amountUsd: '840.00', reason: 'wire of November' },
  changePriceBook: {
    storage: [{ region: 'us-central-1', perGbHourUsd: '0.000096', enabled: true }],
    reason: 'new storage price',
  },
  changeMachine: { draining: true, reason: 'maintenance window' },
  createModel: {
    name: 'acme/small-chat',
    kind: 'chat',
    contextTokens: 32_768,
    inputUsdPerMillion: '0.20',
    outputUsdPerMillion: '0.60',
    supportsTools: true,
  },
  changeModel: { inputUsdPerMillion: '0.15', outputUsdPerMillion: '0.50', reason: 'cheaper machines' },
  createDeployment: { model: 'acme/small-chat', url: 'http://10.0.0.17:8000', concurrency: 64, readsMetrics: true },
  changeDeployment: { drained: true, reason: 'maintenance window' },
  joinHost: {
    token: 'bj_4Yt0Jk3Yv1mT9bQeX5sLw2RaP7nC6dF8gH1jK3mN5pQ0aB2c',
    publicKey: 'GXu5nVxHmSpDCxlxFCdvFnBBtVRmCBkmuz6dGXZ8Kwk',
    name: 'harbour-01',
    offer: {
      clusterName: 'harbour',
      region: 'amsterdam',
      offering: 'marketplace',
      gpuType: null,
      gpuModel: 'NVIDIA-GeForce-RTX-4090',
      gpuRamMib: 24_564,
      gpuFormFactor: null,
      networkType: 'ethernet',
      ethernetVariant: 'normal',
      gpusTotal: 2,
      gpusSick: [],
      priceUsdPerGpuHour: '0.35',
      hasPersistentStorage: false,
      simulated: false,
      hardware: {
        cpuModel: 'AMD EPYC 7313',
        cpuCores: 16,
        virtualCores: 32,
        ramGb: 128,
        storageGb: 1_000,
        gpuClockMhz: 2_520,
        gpuComputePower: 82.6,
        gpuInterface: 'PCIe 4.0 x16',
      },
    },
  },
  createJoinToken: { uses: 4, expiresInHours: 48 },
  changeSuppliedHost: { state: 'draining' },
  addHost: {
    id: 'rack1-01',
    clusterName: 'rack1',
    region: 'eu-west-3',
    gpuType: 'h100',
    gpuModel: 'NVIDIA-H100-SXM5-80GB',
    gpuRamMib: 81_559,
    gpuFormFactor: 'sxm5',
    networkType: 'infiniband',
    gpusTotal: 8,
    hardware: {
      cpuModel: 'Intel Xeon Platinum 8480C',
      cpuCores: 112,
      virtualCores: 224,
      ramGb: 2_048,
      storageGb: 30_720,
      gpuClockMhz: 1_980,
      gpuComputePower: 989,
      gpuInterface: 'SXM5 NVLink',
    },
    hostname: 'rack1-01.example.com',
    publicIp: '198.51.100.17',
    privateIp: '10.20.0.17',
    privateKey: '-----BEGIN OPENSSH PRIVATE KEY-----\n…\n-----END OPENSSH PRIVATE KEY-----\n',
    scratch: ['/scratch'],
  },
  changeHost: { action: 'quarantine', reason: 'a fan is loud' },
  addBaseImage: {
    name: 'debian-12',
    arch: 'x64',
    source: 'https://images.example.com/debian-12-genericcloud-amd64.qcow2',
    sha256: '9ee11adf737960ff06123d5c4fba24d12c5b05ba460a7afa88950fbf2b61add0',
    loginUser: 'debian',
    isDefault: true,
  },
  explainPlacement: {
    machineType: 'virtual-machine',
    region: 'us-central-1',
    gpuType: 'h100',
    networkType: 'ethernet',
    gpuCount: 8,
  },
}

/** Of operations that cannot do without. */
export const exampleQueries: { readonly [Id in OperationId]?: string } = {
  changeModel: 'name=acme/small-chat',
  deleteModel: 'name=acme/small-chat',
}

export function renderCurl(operationId: string, endpoint: Endpoint): Markup {
  return html`<pre class="curl" tabindex="0"><code>${colour(writeCurl(operationId, endpoint))}</code></pre>`
}

export function writeCurl(operationId: string, endpoint: Endpoint): string {
  const body = (exampleBodies as Readonly<Record<string, unknown>>)[operationId]
  const followed = endpoint.media === 'text/event-stream' ? '-N ' : ''
  const impliedMethod = body === undefined ? 'GET' : 'POST'
  const method = endpoint.method === impliedMethod ? '' : `-X ${endpoint.method} `
  const query = exampleQueries[operationId as OperationId]
  const url = `"$BERTH_URL${fillPath(endpoint.path)}${query === undefined ? '' : `?${query}`}"`
  return [
    // A long address gets a line of its own, so that the column need not break it.
    ...(url.length > 48 ? [`curl ${followed}${method}`.trimEnd(), url] : [`curl ${followed}${method}${url}`]),
    ...(endpoint.access === 'public' ? [] : ['-H "Authorization: Bearer $BERTH_KEY"']),
    ...(endpoint.idempotent === true ? ['-H "Idempotency-Key: $(date +%s)"'] : []),
    ...(body === undefined
      ? []
      : ['-H "Content-Type: application/json"', `-d ${quoteForShell(writeJson(body)).replaceAll('\n', '\n  ')}`]),
  ].join(' \\\n  ')
}

/** Single quotes keep the shell out of everything but themselves. */
function quoteForShell(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}

/** One line when it fits the column, else one line a field. */
function writeJson(value: unknown): string {
  const short = JSON.stringify(value)
  return short.length <= 36 ? short : JSON.stringify(value, null, 2)
}

/** Texts in one colour, the keys of JSON in another. */
export function colour(code: string): Markup {
  const tokens = code.match(/"(?:[^"\\]|\\.)*"|[^"]+/g) ?? []
  return html`${tokens.map((token, index) => {
    if (!token.startsWith('"')) return token
    const isKey = tokens[index + 1]?.trimStart().startsWith(':') ?? false
    return isKey ? html`<var>${token}</var>` : html`<i>${token}</i>`
  })}`
}

/** Ids are the reader's own: a shell variable named after the noun before it. */
function fillPath(path: string): string {
  return path
    .replace('{month}', '2026-11')
    .replace(/([a-z-]+)\/\{id\}/, (_, noun: string) => `${noun}/$${singular(noun).toUpperCase().replace('-', '_')}_ID`)
}

function singular(noun: string): string {
  return noun.endsWith('ies') ? `${noun.slice(0, -3)}y` : noun.replace(/s$/, '')
}
