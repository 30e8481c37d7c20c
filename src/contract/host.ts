/**
 * Hosts that run the agent or are managed over SSH, join tokens, base images of virtual machines, and the placement
 * report.
 */
import { z } from 'zod'
import { desired, hostMetrics, hostName, hostOffer } from './agent.ts'
import { endpoint } from './endpoint.ts'
import { placement } from './placement.ts'
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
  timestamp,
} from './shared.ts'

const MAX_JOIN_TOKEN_USES = 1_000
const JOIN_TOKEN_HOURS = 720

const hostState = z.enum([...desired.shape.state.options, 'cleaning_pending'])
const hostDriver = z.enum(['host', 'private-cloud'])

export const suppliedHost = z
  .object({
    id: z.string(),
    driver: hostDriver.describe('`host`: through its agent. `private-cloud`: over SSH'),
    state: hostState.describe(
      '`cleaning_pending`: bare metal that could not be cleaned yet after its last tenant; it cannot be rented',
    ),
    stateReason: z.string().nullable().describe('Why it is quarantined or not admitted yet'),
    joinedAt: timestamp,
    seenAt: timestamp.nullable().describe('Last report; null: never'),
    agentVersion: z.string().nullable().describe('Agent version; null: no agent, or not connected recently'),
    isSilent: z.boolean().describe('Offline: no report for too long; its workloads may still be running'),
    offering: hostOffer.shape.offering,
    region: z.string(),
    clusterName: z.string(),
    gpuModel: z.string(),
    gpusTotal: z.number(),
    gpusSick: z.array(z.number()),
    simulated: z.boolean().describe('Its GPUs are simulated'),
    notes: z.array(z.string()).describe('Notes on what its engine can and cannot do'),
    fault: z
      .object({ reason: z.string(), message: z.string() })
      .nullable()
      .describe('Why it is off sale although it is online, such as `tenants_not_isolated`; null: no fault'),
    tenants: z.number().describe('Customer machines it currently runs'),
    metrics: z
      .object({ at: timestamp, ...hostMetrics.omit({ type: true }).shape })
      .nullable()
      .describe('Latest measurements; null: none yet'),
  })
  .meta({ id: 'SuppliedHost' })

const operatedHost = suppliedHost
  .extend({
    supplierId: z.string().nullable().describe('null: the operator'),
    address: z
      .object({ hostname: z.string(), publicIp: z.string(), privateIp: z.string(), sshPort: z.number() })
      .nullable()
      .describe('null: reached through its agent'),
  })
  .meta({ id: 'OperatedHost' })

const joinToken = z
  .object({
    id: z.string(),
    createdAt: timestamp,
    expiresAt: timestamp,
    usesLeft: z.number(),
    supplierId: z.string().nullable().describe('Supplier of the machines that join with it; null: the operator'),
  })
  .meta({ id: 'JoinToken' })

const port = z.int().min(1).max(65_535)
const ipAddress = z.string().min(2).max(45).describe('IPv4 or IPv6')

/**
 * One entry of an inventory file, without power commands: they run on the server, and an API key must not give shell
 * access there. The engine validates the key and the folders.
 */
const metalHost = z
  .strictObject({
    id: hostName.meta({ title: 'Name', description: 'Lowercase letters, digits and hyphens' }),
    clusterName: z
      .string()
      .min(1)
      .max(100)
      .meta({ title: 'Cluster', description: 'Machines in a cluster share a private network' }),
    region: bareMetalRegion,
    gpuType: gpuType.meta({ title: 'Type' }),
    gpuModel: z.string().min(1).max(200).meta({ title: 'Model' }),
    gpuRamMib: z.int().min(1).max(10_000_000).meta({ title: 'Memory per GPU' }),
    gpuFormFactor: gpuFormFactor.meta({ title: 'Form factor' }),
    networkType: networkType.meta({ title: 'Network between machines' }),
    ethernetVariant: ethernetVariant.nullable().optional(),
    gpusTotal: z.int().min(1).max(64).meta({ title: 'Number of GPUs' }),
    hasPersistentStorage: z.boolean().optional().meta({ title: 'Persistent storage' }),
    simulated: z
      .boolean()
      .optional()
      .meta({ title: 'Simulated GPUs', description: 'The machine has none of these GPUs; for testing' }),
    hardware: hostOffer.shape.hardware,
    hostname: z.string().min(1).max(253).meta({ title: 'Host name' }),
    publicIp: ipAddress.meta({ title: 'Public address', description: 'IPv4 or IPv6; tenants log in here' }),
    privateIp: ipAddress.meta({
      title: 'Private address',
      description: 'IPv4 or IPv6; for other machines in the cluster',
    }),
    sshPort: port.optional().meta({ title: 'SSH port', description: 'For tenants; default: 22' }),
    address: z
      .string()
      .min(1)
      .max(253)
      .optional()
      .describe('Address the server connects to, if not the public address'),
    port: port.optional(),
    user: z.string().min(1).max(32).optional().describe('Default: root'),
    privateKey: z
      .string()
      .min(1)
      .max(16_384)
      .describe('In OpenSSH or PEM format, without a passphrase; stored encrypted and never shown again'),
    hostKey: z
      .string()
      .min(1)
      .max(100)
      .optional()
      .describe('`SHA256:…`; default: trust and pin the key of the first connection'),
    sudo: z
      .boolean()
      .optional()
      .meta({ title: 'Passwordless sudo', description: 'The user is not root and has passwordless sudo' }),
    tenantUser: z
      .string()
      .min(1)
      .max(31)
      .optional()
      .describe('User created for each tenant and removed afterwards; default: tenant'),
    tenantRoot: z.boolean().optional().describe('Gives tenants root access; use only if tenants trust each other'),
    scratch: z
      .array(z.string().min(1).max(1_000))
      .max(16)
      .optional()
      .meta({ title: 'Folders to empty after each tenant', examples: [['/scratch', '/data']] }),
    bmc: z
      .strictObject({
        kind: z.literal('redfish', {
          error: 'Must be `redfish`; only the inventory file of the server can set a `command`',
        }),
        url: z
          .url({ protocol: /^https?$/ })
          .max(2_000)
          .meta({ title: 'URL' }),
        username: z.string().min(1).max(200).meta({ title: 'User' }),
        password: z.string().max(1_000),
        system: z.string().min(1).max(500).optional(),
        fingerprint: z.string().min(1).max(100).optional().meta({ title: 'Certificate fingerprint' }),
        insecure: z.boolean().optional(),
      })
      .optional()
      .describe('How to power-cycle it when it does not respond'),
    tolerance: z.number().min(0).max(0.5).optional().describe('Tolerated memory difference, as a fraction'),
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
    createdAt: timestamp,
  })
  .meta({ id: 'BaseImage' })

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
    summary: 'Join as a host with a join token; the same key is always the same host',
    errors: [400, 403, 500],
    body: z
      .strictObject({
        token: z.string().min(1).max(100).describe('`bj_…`, from `POST /v2/supply/join-tokens`'),
        publicKey: z
          .string()
          .regex(/^[A-Za-z0-9_-]{43}$/, 'Must be an Ed25519 public key: 32 bytes in base64url')
          .describe('Ed25519 public key: 32 bytes in base64url; the agent signs with the private key'),
        name: hostName.optional().describe('Name of the machine; default: three random words'),
        offer: hostOffer,
      })
      .meta({ id: 'JoinHost' }),
    response: z.object({ hostId: z.string(), installation: z.string() }),
  }),
  listJoinTokens: endpoint({
    ...supply,
    method: 'GET',
    path: '/v2/supply/join-tokens',
    summary: 'List active join tokens (without their secrets)',
    errors: [400, 401, 403, 500],
    query: pageQuery,
    response: z.object({ tokens: z.array(joinToken), nextCursor }),
  }),
  createJoinToken: endpoint({
    ...supply,
    method: 'POST',
    path: '/v2/supply/join-tokens',
    summary: 'Create a join token for machines of this account',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        uses: z.int().min(1).max(MAX_JOIN_TOKEN_USES).default(1).describe('Number of machines that can join with it'),
        expiresInHours: z.int().min(1).max(JOIN_TOKEN_HOURS).default(24),
      })
      .meta({ id: 'CreateJoinToken' }),
    response: joinToken.extend({
      token: z.string().describe('`bj_…`, shown once'),
      command: z.string().describe('Command to run on the machine that joins'),
    }),
    idempotent: true,
  }),
  revokeJoinToken: endpoint({
    ...supply,
    method: 'DELETE',
    path: '/v2/supply/join-tokens/{id}',
    summary: 'Revoke a join token; machines that have joined stay',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
  listSuppliedHosts: endpoint({
    ...supply,
    method: 'GET',
    path: '/v2/supply/hosts',
    summary: 'List hosts of this account with their state and measurements',
    errors: [400, 401, 403, 500],
    query: pageQuery,
    response: z.object({ hosts: z.array(suppliedHost), nextCursor }),
  }),
  changeSuppliedHost: endpoint({
    ...supply,
    method: 'PATCH',
    path: '/v2/supply/hosts/{id}',
    summary: 'Drain a host (`draining`), resume it (`ready`) or remove it when it is empty (`left`)',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z.strictObject({ state: z.enum(['ready', 'draining', 'left']) }).meta({ id: 'ChangeSuppliedHost' }),
    response: suppliedHost,
  }),
  listHosts: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/hosts',
    summary: 'List all hosts',
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
    summary: 'Add a bare-metal machine over SSH; it is checked and cleaned before it is sold',
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
      'Only `release` ends a quarantine; a bare-metal machine is then cleaned and checked again before it is sold. `remove` requires an empty host.',
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
    summary: 'List images for virtual machines',
    errors: [401, 403, 500],
    response: z.object({ images: z.array(baseImage) }),
  }),
  addBaseImage: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/base-images',
    summary: 'Add an image for virtual machines; hosts download it once and verify its checksum',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        name: z
          .string()
          .regex(/^[a-z0-9][a-z0-9._-]{0,62}$/, 'Must be lowercase letters, digits, ".", "_" and "-", at most 63')
          .meta({ description: 'Name in orders', examples: ['debian-12'] }),
        arch: z.enum(['x64', 'arm64']).meta({ title: 'Architecture' }),
        source: z
          .string()
          .regex(
            /^(https:\/\/[^\s/]{1,253}\/\S{0,1700}|file:\/\S{1,1700})$/,
            'https://…, or file:/… for a file on the hosts',
          )
          .describe('https://…, or file:/… on each host'),
        sha256: z
          .string()
          .regex(/^[0-9a-f]{64}$/, 'Must be 64 lowercase hexadecimal digits')
          .meta({ title: 'SHA-256', description: 'As printed by sha256sum' }),
        loginUser: z
          .string()
          .regex(/^[a-z_][a-z0-9_-]{0,31}$/, 'Must be a user name')
          .meta({ description: 'User that cloud-init creates', examples: ['debian'] }),
        isDefault: z.boolean().default(false).meta({
          title: 'Default image',
          description: 'Used for orders without an image. Replaces the current default of the architecture',
        }),
      })
      .meta({ id: 'AddBaseImage' }),
    response: baseImage,
    idempotent: true,
  }),
  deleteBaseImage: endpoint({
    ...operator,
    method: 'DELETE',
    path: '/v2/operator/base-images/{id}',
    summary: 'Delete an image; machines started from it keep running',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams.describe('Name'),
    response: message,
  }),
  explainPlacement: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/placement',
    summary: 'Explain where an order would be placed, without placing it',
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
