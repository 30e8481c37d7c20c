/** Tax IDs of customers in the simulator of Stripe. Like Stripe it believes one until the tax office has answered. */
import { failure, type Json } from './stripe-object.ts'

/** The operator is registered there. */
const HOME = 'DE'

/** Tax in percent for a customer with these IDs. */
export function taxPercentFor(taxIds: readonly Json[], percent: number): number {
  const isAbroad = taxIds.some(
    ({ value, verification }) => !String(value).startsWith(HOME) && (verification as Json)['status'] !== 'unverified',
  )
  return isAbroad ? 0 : percent
}

export interface TaxIdCall {
  readonly method: string
  readonly customerId: string
  /** '': none. */
  readonly taxId: string
  readonly params: Json
}

/** `save` makes an object. */
export function answerTaxId(
  objects: Map<string, Json>,
  save: (fields: Json) => Json,
  { method, customerId, taxId, params }: TaxIdCall,
): [number, Json] {
  if (!objects.has(customerId)) return [404, failure('invalid_request_error', 'resource_missing', 'No such customer')]
  if (method === 'POST')
    return [
      200,
      save({ customer: customerId, type: params['type'], value: params['value'], verification: { status: 'pending' } }),
    ]
  if (taxId === '') {
    const data = [...objects.values()].filter((one) => one['object'] === 'tax_id' && one['customer'] === customerId)
    return [200, { object: 'list', url: `/v1/customers/${customerId}/tax_ids`, has_more: false, data }]
  }
  const found = objects.get(taxId)
  if (found === undefined) return [404, failure('invalid_request_error', 'resource_missing', 'No such tax ID')]
  if (method === 'DELETE') {
    objects.delete(taxId)
    return [200, { id: taxId, object: 'tax_id', deleted: true }]
  }
  return [200, found]
}
