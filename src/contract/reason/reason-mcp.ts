/** Reasons about calls of tools by agents (MCP). */
import { formatUsdForPeople, type NanoUsd } from '../../base/money.ts'
import { conflict, forbidden, invalid } from './reason-entry.ts'

export const mcpReasons = {
  foreign_host: forbidden(
    'Agents cannot reach this server under this host name.',
    'Use its address or its public URL. The operator sets that with BERTH_PUBLIC_URL.',
  ),
  quote_invalid: invalid(
    'This is not a quote for this tool, or it was changed.',
    'Get a quote with get_quote, and pass it on unchanged.',
  ),
  quote_expired: conflict('This quote has expired.', 'Get a new one with get_quote; it is valid for 5 minutes.'),
  quote_of_other_key: forbidden('This quote belongs to another API key.', 'Get a quote with get_quote.'),
  outlives_key: invalid('The order would end after the API key does.', 'Choose fewer hours.'),
  run_over_limit: invalid(
    ({ cost, limit }: { readonly cost: NanoUsd; readonly limit: NanoUsd }) =>
      `This can cost ${formatUsdForPeople(cost)}, more than the limit of ${formatUsdForPeople(limit)}.`,
    'Choose fewer hours, or a higher spendingLimitUsd.',
  ),
  confirmation_required: conflict(
    ({ name, message }: { readonly name: string; readonly message: string }) =>
      `${message} The user has to agree, and this client cannot ask. The name is "${name}".`,
    'Ask the user. If they agree, call the tool again with the name in `confirm`.',
  ),
  confirmation_invalid: conflict(
    'This answer does not belong to the question, or came too late.',
    'Call the tool again without the answer, to ask anew.',
  ),
  declined_by_user: conflict('The user has declined. Nothing was changed.'),
} as const
