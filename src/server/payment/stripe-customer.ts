/** Names, addresses and VAT IDs of customers at Stripe. */
import type { Stripe } from 'stripe'
import { countryOfVatId } from '../../domain/vat-id.ts'
import type { Processor, VatCheckState } from '../../domain/processor.ts'
import { answer, answerOrNone } from './stripe-answer.ts'

/** More than any customer has. */
const PAGE = 100

type CustomerCalls = Pick<Processor, 'saveCustomer' | 'startVatCheck' | 'readVatCheck'>

export function customerCalls(stripe: Stripe): CustomerCalls {
  return {
    saveCustomer: async (customerId, { name, address, vatId }) => {
      await answer(
        stripe.customers.update(customerId, {
          name,
          address: {
            line1: address.line1,
            line2: address.line2 ?? '',
            postal_code: address.postalCode ?? '',
            city: address.city,
            state: address.state ?? '',
            country: address.country,
          },
        }),
      )
      const { data } = await answer(stripe.customers.listTaxIds(customerId, { limit: PAGE }))
      for (const { id, value } of data) if (value !== vatId) await answer(stripe.customers.deleteTaxId(customerId, id))
      const type = vatId === null ? undefined : taxIdType(vatId)
      if (vatId === null || type === undefined || data.some(({ value }) => value === vatId)) return
      await answer(stripe.customers.createTaxId(customerId, { type, value: vatId }))
    },

    startVatCheck: async ({ key, accountId, vatId }) => {
      const type = taxIdType(vatId)
      if (type === undefined) return undefined
      const params = { name: `VAT ID check ${accountId}`, metadata: { berth_vat_check: accountId } }
      const { id: customerId } = await answer(stripe.customers.create(params, { idempotencyKey: `${key}:customer` }))
      const taxId = await answer(
        stripe.customers.createTaxId(customerId, { type, value: vatId }, { idempotencyKey: key }),
      )
      return { customerId, checkId: taxId.id }
    },

    readVatCheck: async (customerId, checkId) => {
      const taxId = await answerOrNone(stripe.customers.retrieveTaxId(customerId, checkId))
      return taxId && checkStateOf(taxId.verification?.status)
    },
  }
}

/** What Stripe does not say, or says in a word of a later version, is no verdict. */
function checkStateOf(status: string | undefined): VatCheckState {
  return status === 'pending' || status === 'verified' || status === 'unverified' ? status : 'unavailable'
}

const otherTypes: Readonly<Record<string, Stripe.CustomerCreateTaxIdParams.Type>> = {
  GB: 'gb_vat',
  CH: 'ch_vat',
  NO: 'no_vat',
}
const euCountries = new Set(
  'AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK'.split(' '),
)

/** undefined: Stripe does not check those. */
function taxIdType(vatId: string): Stripe.CustomerCreateTaxIdParams.Type | undefined {
  if (vatId.startsWith('XI')) return 'eu_vat'
  const country = countryOfVatId(vatId)
  return euCountries.has(country) ? 'eu_vat' : otherTypes[country]
}
