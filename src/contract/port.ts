/** HTTP ports of rentals: access for browsers and programs. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { idOrNameParams } from './rental-session.ts'
import { message, time, timestamp } from './shared.ts'
import { portAccess, portProtocol } from './workload.ts'

/** A path on the host of a port: it exchanges the code in its query for a cookie. */
export const PORT_OPEN_PATH = '/.berth/open'

/** A port of a rental as its details show it. */
const portRecord = z
  .object({
    port: z.number(),
    protocol: portProtocol,
    access: portAccess,
    url: z
      .string()
      .nullable()
      .describe('Its address while the rental is running: `https://…` for HTTP, `tcp://host:port` for TCP; null: none'),
    healthPath: z.string().nullable(),
    healthy: z
      .boolean()
      .nullable()
      .describe('Result of the last health check; null: not checked, or not since the rental started'),
  })
  .meta({ id: 'Port' })
export type PortRecord = z.output<typeof portRecord>

export const portFields = {
  ports: z.array(portRecord).describe('Ports of the order; SSH is not among them'),
  ready: z
    .boolean()
    .describe(
      'Whether it is running and every port with a health check answers; `Running` means that the machine runs',
    ),
}

const portToken = z
  .object({
    id: z.string(),
    name: z.string(),
    last4: z.string(),
    createdAt: timestamp,
    expiresAt: timestamp.nullable(),
  })
  .meta({ id: 'PortToken' })

const portParams = idOrNameParams.extend({ port: z.coerce.number().int().min(1).max(65_535) })
const base = '/v2/rentals/{id}/ports/{port}'
const shared = { family: 'v2', tag: 'Rentals', errors: [400, 401, 403, 404, 500] } as const

export const portEndpoints = {
  openRentalPort: endpoint({
    ...shared,
    method: 'POST',
    path: `${base}/open`,
    access: ['compute:write'],
    summary: 'Get a link that opens an HTTP port in a browser',
    description:
      'For a private port the link has a code that works once, within 60 seconds: the browser gets a cookie for that port, and the application never sees either. The cookie is valid for a day, and ends with the API key.',
    params: portParams,
    body: z
      .strictObject({
        path: z
          .string()
          .max(2_000)
          .regex(/^\/[\x21-\x7e]*$/, 'Must be a path such as /lab')
          .default('/')
          .describe('Page to open'),
      })
      .meta({ id: 'OpenPort' }),
    response: z.object({
      url: z.string(),
      expiresAt: timestamp.nullable().describe('When the link stops working; null: the port is public'),
    }),
  }),
  listPortTokens: endpoint({
    ...shared,
    method: 'GET',
    path: `${base}/tokens`,
    access: ['compute:read'],
    summary: 'List the tokens of an HTTP port',
    params: portParams,
    response: z.object({ tokens: z.array(portToken) }),
  }),
  createPortToken: endpoint({
    ...shared,
    method: 'POST',
    path: `${base}/tokens`,
    access: ['compute:write'],
    summary: 'Create a token for an HTTP port',
    description:
      'For programs: `Authorization: Bearer <token>` gives access to this port and to nothing else. The token is shown only in this response; the application never sees it.',
    params: portParams,
    body: z
      .strictObject({
        name: z.string().trim().min(1).max(limits.nameChars),
        expiresAt: time.optional().describe('Default: valid until revoked, or until the rental ends'),
      })
      .meta({ id: 'CreatePortToken' }),
    response: portToken.extend({ token: z.string().describe('`bpt_…`, shown once') }).meta({ id: 'NewPortToken' }),
    idempotent: true,
  }),
  revokePortToken: endpoint({
    ...shared,
    method: 'DELETE',
    path: `${base}/tokens/{tokenId}`,
    access: ['compute:write'],
    summary: 'Revoke a token of an HTTP port',
    params: portParams.extend({ tokenId: z.string().min(1).max(100) }),
    response: message,
  }),
}
