/** Storage volumes of all accounts, as an operator sees them. */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { pageQuery, timestamp } from './shared.ts'

/** Fields for operators only: a provider's messages may contain hosts and paths. */
export const lastErrorFields = {
  lastError: z.string().nullable().describe('Error of the last call to the engine; null: it succeeded'),
  lastErrorAt: timestamp.nullable(),
}

export const volumeState = z.enum(['creating', 'active', 'suspended', 'unknown', 'deleting', 'deleted', 'failed'])

export const operatorVolumeEndpoints = {
  listAllVolumes: endpoint({
    family: 'v2',
    tag: 'Operator',
    access: ['operator'],
    method: 'GET',
    path: '/v2/operator/volumes',
    summary: 'List storage volumes of all accounts with the last engine error',
    errors: [400, 401, 403, 500],
    query: pageQuery.extend({
      state: volumeState.optional(),
      failing: z.stringbool().optional().describe('Filters by whether the last call to the engine failed'),
      accountId: z.string().max(50).optional(),
    }),
    response: z.object({
      volumes: z.array(
        z
          .object({
            id: z.number(),
            accountId: z.string(),
            accountName: z.string(),
            label: z.string(),
            driver: z.string(),
            region: z.string(),
            sizeGb: z.number(),
            state: volumeState,
            stateReason: z.string().nullable(),
            stateSince: timestamp,
            externalId: z.string().nullable(),
            attempts: z.number(),
            ...lastErrorFields,
            attachments: z.array(
              z.object({
                rentalId: z.number(),
                state: z.enum(['attaching', 'attached', 'detaching']),
                ...lastErrorFields,
              }),
            ),
          })
          .meta({ id: 'OperatedVolume' }),
      ),
      nextCursor: z.string().nullable(),
    }),
  }),
}
