/** Creating an API key. The key is shown once, when it is created. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { scopes, type Scope } from '../../../src/contract/endpoint.ts'
import { scopeTexts } from '../../../src/contract/scope-text.ts'
import { mayUse, useMe } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import type { ControlProps } from '../../form/entry.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { DateField } from '../../ui/date-field.tsx'
import { SecretOnce } from '../../ui/secret-once.tsx'

const ORIGINS_HINT =
  'One per line, such as https://app.example.com; * allows any. Visitors of those pages can copy the key: set a spending limit.'
const EXPIRY_DAYS = [7, 30, 90, 365]

export function CreateKeyDialog({ onClose }: { onClose: () => void }) {
  const [key, setKey] = useState<Reply<'createApiKey'>>()
  const members = useOtherMembers()
  const scopeChoices = useScopeChoices()
  const modelsHint = useModelsHint()
  if (key !== undefined) {
    return (
      <SecretOnce title="Your new API key" label={`Key ${key.name}`} secret={key.key} onClose={onClose}>
        <strong>This key is shown only once.</strong> Copy it to a safe place now. If you lose it, revoke it and create
        a new one.
      </SecretOnce>
    )
  }
  return (
    <FieldDialog
      operation="createApiKey"
      refreshes={['listApiKeys']}
      title="Create API key"
      action="Create key"
      wide
      fields={({ allowedModels }) => [
        'name',
        members.length > 0 && [
          'memberId',
          {
            choices: [{ value: '', label: 'Yourself' }, ...members],
            hint: 'Acts on this member’s behalf; revoked when they are removed.',
          },
        ],
        ['scopes', { choices: scopeChoices }],
        ['expiresAt', { as: ExpiryField }],
        {
          group: 'Limits',
          isFolded: true,
          fields: [
            ['monthlyLimitUsd', { placeholder: 'No limit' }],
            ['totalLimitUsd', { placeholder: 'No limit' }],
            'class',
            'requestsPerMinute',
            'tokensPerMinute',
            ['allowedModels', { as: 'block', placeholder: 'All models', hint: modelsHint(allowedModels) }],
            ['allowedOrigins', { as: 'block', placeholder: 'None', hint: ORIGINS_HINT }],
          ],
        },
      ]}
      onDone={setKey}
      onClose={onClose}
    />
  )
}

function ExpiryField(props: ControlProps) {
  return <DateField {...props} days={EXPIRY_DAYS} />
}

/** Lists the other members. Members sign in with keys, so an owner creates the first key of a new member. */
function useOtherMembers() {
  const me = useMe()
  const { data } = useCall('listMembers', {}, { enabled: me.role === 'owner' })
  return (data?.members ?? [])
    .filter((member) => member.id !== me.id)
    .map(({ id, email, role }) => ({ value: id, label: `${email} (${role})` }))
}

/** Offers only scopes that the current key has, since a key cannot create one with more. */
function useScopeChoices() {
  const me = useMe()
  const hasScope = (scope: Scope): boolean => mayUse(me, scope) || mayUse(me, 'operator')
  return scopes
    .filter((scope) => scope !== 'operator' || mayUse(me, 'operator'))
    .map((scope) => ({
      value: scope,
      label: scope,
      disabled: !hasScope(scope),
      hint: hasScope(scope) ? scopeTexts[scope] : `${scopeTexts[scope]} Your key does not have this scope.`,
    }))
}

/** A hint that a model is not available. It is accepted anyway, since it may be offered later. */
function useModelsHint(): (typed: string) => string {
  const me = useMe()
  const models = useCall('listModels', {}, { enabled: mayUse(me, 'inference') })
  const names = models.data?.data.map((model) => model.id) ?? []
  const available = names.length === 0 ? '' : ` Available: ${names.join(', ')}.`
  return (typed) => {
    const unknown = typed
      .split(/[\n,]/)
      .map((name) => name.trim())
      .filter((name) => name !== '' && models.data !== undefined && !names.includes(name))
    return unknown.length === 0 ? `One per line.${available}` : `Not available: ${unknown.join(', ')}.${available}`
  }
}
