/**
 * Hosts: machines that join with our agent, machines that the operator has over SSH, the words that let a machine join,
 * the images that virtual machines start from, and why an order found no place.
 */
import { z } from 'zod'
import { desired, hostMetrics, hostName, hostOffer } from './agent.ts'
import { endpoint } from './endpoint.ts'
import { bareMetalRegion, region } from './region.ts'
import { rentalType } from './rental.ts'
import {
  ethernetVariant,
  gpuFormFactor,
  gpuType,
  message,
  networkType,
  pageQuery,
  reasonText,
  searchText,
  textIdParams,
} from './shared.ts'

const JOIN_TOKEN_USES = 1_000
const JOIN_TOKEN_HOURS = 720

const hostState = z.enum([...desired.shape.state.options, 'cleaning_pending'])
const hostDriver = z.enum(['host', 'private-cloud'])

const suppliedHost = z
  .object({
    id: z.string(),
    driver: hostDriver.describe('`host`: by its agent. `private-cloud`: over SSH'),
    state: hostState.describe(
      '`cleaning_pending`: bare metal whose last tenant has ended and which could not be cleaned yet; nobody can rent it',
    ),
    stateReason: z.string().nullable().describe('Why it is in quarantine, or not taken in yet'),
    joinedAt: z.string(),
    seenAt: z.string().nullable().describe('When it last reported; null: never'),
    agentVersion: z.string().nullable().describe('Of its agent; null: it has none, or has not connected lately'),
    isSilent: z.boolean().describe('Nothing was heard for too long; what runs there may run on'),
    offering: hostOffer.shape.offering,
    region: z.string(),
    clusterName: z.string(),
    gpuModel: z.string(),
    gpusTotal: z.number(),
    gpusSick: z.array(z.number()),
    simulated: z.boolean().describe('Its GPUs are declared; there are no such devices'),
    notes: z.array(z.string()).describe('What its engine can and cannot do, in sentences'),
    fault: z
      .object({ reason: z.string(), message: z.string() })
      .nullable()
      .describe('Why it is off sale although it answers, such as `tenants_not_isolated`; null: no fault'),
    tenants: z.number().describe('Machines of customers that it has now'),
    metrics: z
      .object({ at: z.string(), ...hostMetrics.omit({ type: true }).shape })
      .nullable()
      .describe('The last measurements; null: none yet'),
  })
  .meta({ id: 'SuppliedHost' })

const operatedHost = suppliedHost
  .extend({
    supplierId: z.string().nullable().describe('null: the house'),
    address: z
      .object({ hostname: z.string(), publicIp: z.string(), privateIp: z.string(), sshPort: z.number() })
      .nullable()
      .describe('null: it is reached through its agent'),
  })
  .meta({ id: 'OperatedHost' })

const joinToken = z
  .object({
    id: z.string(),
    createdAt: z.string(),
    expiresAt: z.string(),
    usesLeft: z.number(),
    supplierId: z.string().nullable().describe('Whose the machines are that join with it; null: the house'),
  })
  .meta({ id: 'JoinToken' })

const port = z.int().min(1).max(65_535)
const ipAddress = z.string().min(2).max(45).describe('IPv4 or IPv6')

/**
 * One entry of an inventory file, but for commands as power switches: they run on the server, and a key of the API is no
 * login there. What only the engine can judge (the key, the folders) it checks itself.
 */
const metalHost = z
  .strictObject({
    id: hostName,
    clusterName: z.string().min(1).max(100),
    region: bareMetalRegion,
    gpuType,
    gpuModel: z.string().min(1).max(200),
    gpuRamMib: z.int().min(1).max(10_000_000),
    gpuFormFactor,
    networkType,
    ethernetVariant: ethernetVariant.nullable().optional(),
    gpusTotal: z.int().min(1).max(64),
    hasPersistentStorage: z.boolean().optional(),
    simulated: z.boolean().optional().describe('Its GPUs are declared; there are no such devices'),
    hardware: hostOffer.shape.hardware,
    hostname: z.string().min(1).max(253),
    publicIp: ipAddress,
    privateIp: ipAddress,
    sshPort: port.optional().describe('On which tenants log in; default 22'),
    address: z.string().min(1).max(253).optional().describe('Where we reach it, when that is not its public address'),
    port: port.optional(),
    user: z.string().min(1).max(32).optional().describe('default root'),
    privateKey: z.string().min(1).max(16_384).describe("In OpenSSH's form or PEM, without a passphrase; never shown"),
    hostKey: z.string().min(1).max(100).optional().describe('`SHA256:…`; without it, that of the first connection'),
    sudo: z.boolean().optional().describe('The user is not root and has sudo without a password'),
    tenantUser: z.string().min(1).max(31).optional().describe('Made for each tenant and removed after; default tenant'),
    tenantRoot: z.boolean().optional().describe('Gives tenants root; only where they trust each other'),
    scratch: z.array(z.string().min(1).max(1_000)).max(16).optional().describe('Folders that are emptied after each'),
    bmc: z
      .strictObject({
        kind: z.literal('redfish', {
          error: 'Must be `redfish`: a `command` runs on the server, so only its inventory file may name one',
        }),
        url: z.url({ protocol: /^https?$/ }).max(2_000),
        username: z.string().min(1).max(200),
        password: z.string().max(1_000),
        system: z.string().min(1).max(500).optional(),
        fingerprint: z.string().min(1).max(100).optional(),
        insecure: z.boolean().optional(),
      })
      .optional()
      .describe('How to switch it off and on when it does not answer'),
    tolerance: z.number().min(0).max(0.5).optional().describe('How far its memory may be off, as a share'),
  })
  .meta({ id: 'AddHost' })

const baseImage = z
  .object({
    name: z.string(),
    arch: z.enum(['x64', 'arm64']),
    source: z.string(),
    sha256: z.string(),
    loginUser: z.string(),
    isDefault: z.boolean(),
    createdAt: z.string(),
  })
  .meta({ id: 'BaseImage' })

export const placementReason = z.enum([
  'other_offering',
  'other_region',
  'other_gpu',
  'other_network',
  'engine_off',
  'not_listed',
  'draining',
  'cleaning',
  'quarantined',
  'lost',
  'costs_too_much',
  'other_size',
  'not_whole',
  'too_few_free',
  'sick_gpus',
  'cluster_too_small',
])
export type PlacementReason = z.output<typeof placementReason>

const placement = z
  .object({
    found: z.boolean().describe('An order like this could be placed now'),
    price: z.enum(['found', 'disabled', 'missing', 'other_gpu_count']).describe('What the price book says of it'),
    candidates: z
      .array(
        z.object({
          machineId: z.string(),
          driver: z.string(),
          clusterName: z.string(),
          gpusFree: z.number(),
          gpusTotal: z.number(),
        }),
      )
      .describe('In the order in which they would be tried; at most 200'),
    rejected: z
      .array(z.object({ machineId: z.string(), driver: z.string(), reason: placementReason, detail: z.string() }))
      .describe('The nearest misses first; at most 200'),
    rejectedCount: z.number(),
  })
  .meta({ id: 'Placement' })

const supply = { family: 'v2', tag: 'Supply', access: ['supply'] } as const
const operator = { family: 'v2', tag: 'Operator', access: ['operator'] } as const
const nextCursor = z.string().nullable()

export const hostEndpoints = {
  joinHost: endpoint({
    family: 'v2',
    tag: 'Supply',
    access: 'public',
    method: 'POST',
    path: '/v2/agent/join',
    summary: 'Make this machine a host. The token lets it in; the same key again is the same host',
    errors: [400, 403, 500],
    body: z
      .strictObject({
        token: z.string().min(1).max(100).describe('`bj_…`, of `POST /v2/supply/join-tokens`'),
        publicKey: z
          .string()
          .regex(/^[A-Za-z0-9_-]{43}$/, 'Must be an Ed25519 public key: 32 bytes in base64url')
          .describe('Ed25519, its 32 bytes in base64url; the agent signs with its other half'),
        name: hostName.optional().describe('How the machine is called; without it, three random words'),
        offer: hostOffer,
      })
      .meta({ id: 'JoinHost' }),
    response: z.object({ hostId: z.string(), installation: z.string() }),
  }),
  listJoinTokens: endpoint({
    ...supply,
    method: 'GET',
    path: '/v2/supply/join-tokens',
    summary: 'Words that let machines join, without the words themselves',
    errors: [400, 401, 403, 500],
    query: pageQuery,
    response: z.object({ tokens: z.array(joinToken), nextCursor }),
  }),
  createJoinToken: endpoint({
    ...supply,
    method: 'POST',
    path: '/v2/supply/join-tokens',
    summary: 'A word that lets machines join. The machines belong to this account; the operator’s to the house',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        uses: z.int().min(1).max(JOIN_TOKEN_USES).default(1).describe('How many machines may join with it'),
        expiresInHours: z.int().min(1).max(JOIN_TOKEN_HOURS).default(24),
      })
      .meta({ id: 'CreateJoinToken' }),
    response: joinToken.extend({
      token: z.string().describe('`bj_…`, shown once'),
      command: z.string().describe('To be run on the machine that joins'),
    }),
    idempotent: true,
  }),
  revokeJoinToken: endpoint({
    ...supply,
    method: 'DELETE',
    path: '/v2/supply/join-tokens/{id}',
    summary: 'Let nobody else join with it; machines that have joined stay',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
  listSuppliedHosts: endpoint({
    ...supply,
    method: 'GET',
    path: '/v2/supply/hosts',
    summary: 'Hosts of this account, how they are and what they measure',
    errors: [400, 401, 403, 500],
    query: pageQuery,
    response: z.object({ hosts: z.array(suppliedHost), nextCursor }),
  }),
  changeSuppliedHost: endpoint({
    ...supply,
    method: 'PATCH',
    path: '/v2/supply/hosts/{id}',
    summary:
      'Take a host off sale (`draining`), put it back (`ready`) or take it away for good (`left`, when it is empty)',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z.strictObject({ state: z.enum(['ready', 'draining', 'left']) }).meta({ id: 'ChangeSuppliedHost' }),
    response: suppliedHost,
  }),
  listHosts: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/hosts',
    summary: 'Every host, whoever supplies it',
    errors: [400, 401, 403, 500],
    query: pageQuery.extend({
      q: searchText.describe('Part of the id, cluster or region'),
      state: hostState.optional(),
      driver: hostDriver.optional(),
    }),
    response: z.object({
      hosts: z.array(operatedHost.extend({ supplierName: z.string().nullable() })),
      nextCursor,
    }),
  }),
  addHost: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/hosts',
    summary: 'Add a bare-metal machine that is reached over SSH. It is checked and cleaned before it is sold',
    errors: [400, 401, 403, 500],
    body: metalHost,
    response: operatedHost,
    idempotent: true,
  }),
  changeHost: endpoint({
    ...operator,
    method: 'PATCH',
    path: '/v2/operator/hosts/{id}',
    summary: 'Drain, resume, quarantine, release or remove a host',
    description:
      '`release` is the only way out of quarantine: a bare-metal machine is cleaned and checked again before it is sold. `remove` needs it to be empty.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z
      .strictObject({ action: z.enum(['drain', 'resume', 'quarantine', 'release', 'remove']), reason: reasonText })
      .meta({ id: 'ChangeHost' }),
    response: operatedHost,
  }),
  listBaseImages: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/base-images',
    summary: 'Images that virtual machines start from',
    errors: [401, 403, 500],
    response: z.object({ images: z.array(baseImage) }),
  }),
  addBaseImage: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/base-images',
    summary: 'Name an image for virtual machines. Hosts fetch it once and hold it against its checksum',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        name: z
          .string()
          .regex(/^[a-z0-9][a-z0-9._-]{0,62}$/, 'Only lower-case letters, digits, dot, _ and -, 63 at most'),
        arch: z.enum(['x64', 'arm64']),
        source: z
          .string()
          .regex(
            /^(https:\/\/[^\s/]{1,253}\/\S{0,1700}|file:\/\S{1,1700})$/,
            'https://…, or file:/… on the hosts themselves',
          ),
        sha256: z.string().regex(/^[0-9a-f]{64}$/, '64 hexadecimal digits in lower case'),
        loginUser: z.string().regex(/^[a-z_][a-z0-9_-]{0,31}$/, 'Must be a user name'),
        isDefault: z.boolean().default(false).describe('For orders that name none; there is one of each architecture'),
      })
      .meta({ id: 'AddBaseImage' }),
    response: baseImage,
    idempotent: true,
  }),
  deleteBaseImage: endpoint({
    ...operator,
    method: 'DELETE',
    path: '/v2/operator/base-images/{id}',
    summary: 'Forget an image; machines that have started from it run on',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams.describe('Its name'),
    response: message,
  }),
  explainPlacement: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/placement',
    summary: 'Where an order would go, and why each other machine would not do; changes nothing',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        machineType: rentalType,
        region,
        gpuType,
        networkType,
        gpuCount: z.int().min(1).max(4_096),
      })
      .meta({ id: 'ExplainPlacement' }),
    response: placement,
  }),
}
