/** `berth billing documents` and `berth billing profile`: invoices as PDF, and whom they are made out to. */
import { buffer } from 'node:stream/consumers'
import { money } from '../../view/money.ts'
import { utcDay } from '../../view/time.ts'
import { documentLabels, vatStateLabels } from '../../view/document.ts'
import type { Reply } from '../../client/client.ts'
import { checkOutput, outputOptions, writeOutput, type OutputOptions } from '../kit/output-file.ts'
import { act, custom, list, show } from '../kit/row.ts'
import type { Row } from '../kit/row-type.ts'
import { openDownload } from '../rental/download.ts'

type Profile = Reply<'getBillingProfile'>

const NUMBER = { '<number>': 'number, such as INV-2026-000001' }

export const documentRows: readonly Row[] = [
  list('billing documents ls', 'listDocuments', 'list invoices and credit notes, newest first', {
    columns: [
      'number',
      {
        KIND: ({ kind }) => documentLabels[kind],
        DATE: ({ issuedAt }) => utcDay(issuedAt),
        NET: ({ amountUsd }) => money(amountUsd),
        TAX: ({ taxUsd }) => money(taxUsd),
        TOTAL: ({ totalUsd }) => money(totalUsd),
        CORRECTS: ({ corrects }) => corrects ?? '',
      },
    ],
    empty: 'Each payment by card gets an invoice: berth billing add 100',
    hint: ([newest]) => `To save one: berth billing documents get ${newest?.number ?? 'NUMBER'} -o invoice.pdf`,
  }),
  custom<OutputOptions>('billing documents get', 'save an invoice or a credit note as PDF', {
    operation: 'getDocumentPdf',
    args: NUMBER,
    options: outputOptions('PDF'),
    examples: ['berth billing documents get INV-2026-000001 -o invoice.pdf'],
    run: async ({ session, screen, options, args }) => {
      checkOutput(options)
      const number = String(args[0])
      const content = await openDownload(session, `/v2/billing/documents/${encodeURIComponent(number)}/pdf`)
      writeOutput(options, await buffer(content))
      screen.show({ number, file: options.output }, () => [`Saved ${number} to ${options.output}.`])
    },
  }),
  show('billing profile show', 'getBillingProfile', 'show whom invoices are made out to', {
    facts: [
      {
        Name: ({ profile }: Profile) => profile?.name ?? 'none was given: berth billing profile set',
        Address: ({ profile }: Profile) => profile && addressText(profile),
        'VAT ID': ({ profile }: Profile) => profile && vatText(profile),
        'Order number': ({ profile }: Profile) => profile?.poNumber ?? undefined,
      },
    ],
  }),
  act('billing profile set', 'setBillingProfile', 'set whom invoices are made out to', {
    notes: 'It replaces what was set before, and counts for later payments only.',
    flags: {
      name: '--name <text>  company or name',
      line1: '--street <text>  street and number',
      line2: '--line2 <text>  second line of the address',
      postalCode: '--postal-code <code>  postal code',
      city: '--city <text>  city',
      state: '--state <text>  state or province',
      country: '--country <code>  country, such as DE',
      vatId: '--vat-id <id>  VAT ID with its country, such as DE136695976',
      poNumber: '--order-number <text>  your order number, printed on each document',
    },
    examples: [
      'berth billing profile set --name "Example GmbH" --street "Hauptstr. 1" --postal-code 10115 --city Berlin --country DE --vat-id DE136695976',
    ],
    done: ({ profile }) =>
      profile?.vatId === null || profile === null
        ? 'Saved for later invoices.'
        : `Saved for later invoices. VAT ID ${vatText(profile) ?? ''}.`,
  }),
]

type GivenProfile = NonNullable<Profile['profile']>

function addressText({ line1, line2, postalCode, city, state, country }: GivenProfile): string {
  return [line1, line2, [postalCode, city].filter(Boolean).join(' '), state, country].filter(Boolean).join(', ')
}

function vatText({ vatId, vatState }: GivenProfile): string | undefined {
  return vatId === null || vatState === null ? undefined : `${vatId} (${vatStateLabels[vatState][0]})`
}
