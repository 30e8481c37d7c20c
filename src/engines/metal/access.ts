/**
 * How a bare-metal host is reached and what it should be. `metalAccess` holds secrets: it is kept sealed, and nothing
 * of it is shown. Names that end up in files of the host (the tenant's user, scratch folders) are held to plain forms
 * here, once, so that the scripts need not think about them.
 */
import { posix } from 'node:path'
import ssh2 from 'ssh2'
import { z } from 'zod'

const MAX_KEY_CHARS = 16_384
const MAX_SCRATCH_FOLDERS = 16
const MAX_COMMAND_WORDS = 50

/** Not even the folders below these are wiped. */
const SYSTEM_TREES = [
  'bin',
  'boot',
  'dev',
  'etc',
  'lib',
  'lib32',
  'lib64',
  'libx32',
  'proc',
  'root',
  'run',
  'sbin',
  'sys',
  'usr',
]
/** Folders below these may be scratch, they themselves not. */
const SYSTEM_FOLDERS = [
  '',
  'home',
  'media',
  'mnt',
  'opt',
  'srv',
  'tmp',
  'var',
  'var/lib',
  'var/log',
  'var/spool',
  'var/tmp',
]
const OWN_FOLDER = '/var/lib/berth'

const scratchFolder = z
  .string()
  .max(1_000)
  .regex(/^\/[A-Za-z0-9._/-]*$/, 'an absolute path of letters, digits, dot, underscore, hyphen and slash')
  .refine(
    (folder) => posix.normalize(folder) === folder && !folder.endsWith('/'),
    'a path without "..", "//" or "/" at its end',
  )
  .refine((folder) => !isOfTheSystem(folder), 'not a folder of the system: it is wiped between tenants')

function isOfTheSystem(folder: string): boolean {
  const inside = folder.slice(1)
  const isBelow = (tree: string): boolean => inside === tree || inside.startsWith(`${tree}/`)
  return SYSTEM_FOLDERS.includes(inside) || SYSTEM_TREES.some(isBelow) || isBelow(OWN_FOLDER.slice(1))
}

const privateKey = z
  .string()
  .max(MAX_KEY_CHARS)
  .superRefine((text, context) => {
    const parsed = ssh2.utils.parseKey(text)
    const key = Array.isArray(parsed) ? parsed[0] : parsed
    if (key instanceof Error) context.addIssue({ code: 'custom', message: `is not a private key: ${key.message}` })
    else if (key?.isPrivateKey() !== true)
      context.addIssue({ code: 'custom', message: 'is a public key; a private key is needed' })
  })

const command = z.array(z.string().min(1).max(1_000)).min(1).max(MAX_COMMAND_WORDS)

const metalBmc = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('redfish'),
    url: z.url({ protocol: /^https?$/ }),
    username: z.string().min(1).max(200),
    password: z.string().max(1_000),
    /** The path of its system; needed where the controller has several. */
    system: z.string().startsWith('/').max(500).optional(),
    /** SHA-256 of its certificate as `AB:CD:…`: that one is trusted, whoever has signed it. */
    fingerprint: z
      .string()
      .regex(/^([0-9A-F]{2}:){31}[0-9A-F]{2}$/i, 'SHA-256 as 32 pairs of hex digits with colons')
      .optional(),
    /** Any certificate, and plain HTTP: whoever sits on the way can read the password. */
    insecure: z.boolean().default(false),
  }),
  z.object({
    kind: z.literal('command'),
    reset: command,
    /** Used when the reset says no: a switch may not reset what is off. */
    on: command.optional(),
    off: command.optional(),
  }),
])
export type MetalBmc = z.output<typeof metalBmc>

export const metalAccessFields = z.object({
  address: z.string().regex(/^[A-Za-z0-9.:-]{1,253}$/, 'a host name or an IP address'),
  port: z.int().min(1).max(65_535).default(22),
  user: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,31}$/, 'a user name')
    .default('root'),
  /** OpenSSH's own form or PEM, without a passphrase. */
  privateKey,
  /** `SHA256:…` of the key that the host shows (Ed25519 where it has one). Absent: that of the first connection. */
  hostKey: z
    .string()
    .regex(/^SHA256:[A-Za-z0-9+/]{43}$/, 'SHA256: and 43 characters, as ssh-keygen -l prints it')
    .optional(),
  /** The user is not root and has sudo without a password. */
  sudo: z.boolean().default(false),
  /** Made for each tenant, and removed after. There must be no such user otherwise. */
  tenantUser: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,30}$/, 'lower-case letters, digits and hyphens')
    .default('tenant'),
  /**
   * Gives the tenant sudo without a password. This is weaker: root can hide things from the cleaning that follows, in
   * files of the system or in firmware. Only for tenants that trust each other, or hosts that are imaged anew.
   */
  tenantRoot: z.boolean().default(false),
  /** Folders whose content is removed between tenants, whoever owns it. */
  scratch: z.array(scratchFolder).max(MAX_SCRATCH_FOLDERS).default([]),
  bmc: metalBmc.optional(),
})
export const metalAccess = metalAccessFields.refine(({ user, tenantUser }) => user !== tenantUser, {
  path: ['tenantUser'],
  message: 'must differ from the user that Berth logs in as',
})
export type MetalAccess = z.output<typeof metalAccess>

/** What the operator says that the host is. */
export const metalDeclared = z.object({
  /** Processors as /proc/cpuinfo counts them. */
  cpuCores: z.int().positive(),
  ramGb: z.number().positive(),
  /** Absent: it has none, or they are simulated. */
  gpus: z.object({ count: z.int().min(1).max(64), model: z.string().min(1).max(200) }).optional(),
  /** How far memory may be off, as a share: the kernel keeps some for itself. */
  tolerance: z.number().min(0).max(0.5).default(0.1),
})
export type MetalDeclared = z.output<typeof metalDeclared>

export const metalAddress = z.object({
  hostname: z.string().regex(/^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/, 'a host name'),
  publicIp: z.union([z.ipv4(), z.ipv6()]),
  privateIp: z.union([z.ipv4(), z.ipv6()]),
  sshPort: z.int().min(1).max(65_535).default(22),
})
export type MetalAddress = z.output<typeof metalAddress>
