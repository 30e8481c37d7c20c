/** `berth operator seller` and `berth operator vat-ids`: who sells, the tax rates, and VAT IDs of accounts. */
import { vatStateLabels } from '../../view/document.ts'
import type { Reply } from '../../client/client.ts'
import { act, list, show } from '../kit/row.ts'
import type { Row } from '../kit/row-type.ts'

type Seller = Reply<'getSeller'>

const COUNTRY = { '<country>': 'country, such as DE' }

export const rows: readonly Row[] = [
  show('operator seller show', 'getSeller', 'show who sells, and the tax rates', {
    facts: [
      {
        Seller: ({ seller }: Seller) => seller?.name ?? 'not set: no invoices are issued',
        Address: ({ seller }: Seller) =>
          seller === null
            ? undefined
            : [seller.line1, seller.line2, [seller.postalCode, seller.city].filter(Boolean).join(' '), seller.country]
                .filter(Boolean)
                .join(', '),
        'Tax ID': ({ seller }: Seller) => seller?.taxId ?? undefined,
        Email: ({ seller }: Seller) => seller?.email ?? undefined,
        Tax: ({ seller }: Seller) =>
          seller === null ? undefined : seller.taxBy === 'rates' ? 'by your own rates' : 'by Stripe Tax',
        Rates: ({ taxRates }: Seller) =>
          taxRates.length === 0
            ? undefined
            : taxRates.map(({ country, name, percent }) => `${country} ${name} ${percent}%`).join(', '),
      },
    ],
  }),
  act('operator seller set', 'setSeller', 'set who sells; payments by card then get invoices', {
    notes: 'It replaces what was set before. Documents that were issued do not change.',
    flags: {
      name: '--name <text>  company',
      line1: '--street <text>  street and number',
      line2: '--line2 <text>  second line of the address',
      postalCode: '--postal-code <code>  postal code',
      city: '--city <text>  city',
      state: '--state <text>  state or province',
      country: '--country <code>  country, such as DE',
      taxId: '--tax-id <id>  tax ID, as it is printed',
      email: '--email <address>  for questions about documents',
      footer: '--footer <text>  foot of each page, such as the company register',
      taxBy: '--tax-by <processor|rates>  Stripe Tax (processor, the default) or your own rates',
    },
    examples: [
      'berth operator seller set --name "Example Cloud GmbH" --street "Hafenstr. 1" --postal-code 20457 --city Hamburg --country DE --tax-id DE136695976 --tax-by rates',
    ],
    done: ({ seller }) => `${seller?.name ?? ''} sells from now on.`,
  }),
  act('operator seller set-rate', 'setTaxRate', 'set the tax on sales to a country', {
    args: {
      '<country>': { help: 'country, such as DE', field: 'country' },
      '<percent>': { help: 'percentage, such as 19 or 8.875', field: 'percent' },
    },
    flags: { name: '--name <text>  as it is printed, such as VAT' },
    examples: ['berth operator seller set-rate DE 19 --name VAT'],
    done: ({ country, name, percent }) => `Sales to ${country}: ${name} ${percent}%, from the next payment on.`,
  }),
  act('operator seller rm-rate', 'deleteTaxRate', 'stop taxing sales to a country', {
    args: COUNTRY,
    examples: ['berth operator seller rm-rate DE'],
    done: ({ country }) => `Sales to ${country} are no longer taxed.`,
  }),
  list('operator vat-ids ls', 'listVatIds', 'list VAT IDs of accounts, those to check first', {
    columns: [
      'accountId:ACCOUNT',
      'name',
      'vatId:VAT ID',
      { STATE: ({ vatState }) => vatStateLabels[vatState][0], 'CHECKED BY': ({ checkedBy }) => checkedBy ?? '' },
    ],
    empty: 'Customers give theirs with berth billing profile set.',
  }),
  act('operator vat-ids verify', 'checkVatId', 'record that a VAT ID exists', {
    args: { '<id>': 'id of the account', '<vat-id>': { help: 'the VAT ID that you checked', field: 'vatId' } },
    only: ['reason'],
    fixed: { isVerified: true },
    flags: { reason: '--reason <text>  how you checked it, for the audit log' },
    examples: ['berth operator vat-ids verify acc_ID FR40303265045 --reason "VIES, 19 November"'],
    done: ({ vatId }) => `${vatId ?? ''} is verified. It counts for later payments.`,
  }),
  act('operator vat-ids reject', 'checkVatId', 'record that a VAT ID does not exist', {
    args: { '<id>': 'id of the account', '<vat-id>': { help: 'the VAT ID that you checked', field: 'vatId' } },
    only: ['reason'],
    fixed: { isVerified: false },
    flags: { reason: '--reason <text>  how you checked it, for the audit log' },
    examples: ['berth operator vat-ids reject acc_ID FR40303265045 --reason "VIES does not know it"'],
    done: ({ vatId }) => `${vatId ?? ''} counts as not found. Later payments are taxed.`,
  }),
]
