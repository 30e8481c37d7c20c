/** How to add an account. Credentials are read by the CLI from a file, so that they never pass through a browser. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { Code } from '../../ui/card.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { SelectField } from '../../ui/field.tsx'
import { credentialsFile } from '../provider/parts.tsx'

type Kind = Reply<'listProviders'>['kinds'][number]

export function AddProviderDialog({ kinds, onClose }: { kinds: readonly Kind[]; onClose: () => void }) {
  const [provider, setProvider] = useState<string>(kinds[0]?.provider ?? '')
  const kind = kinds.find((one) => one.provider === provider)
  return (
    <Dialog title="Add an account" onClose={onClose} wide>
      <div className="flex flex-col gap-4">
        <SelectField
          label="Cloud"
          choices={kinds.map(({ provider: value, title }) => ({ value, label: title }))}
          value={provider}
          onChange={(event) => setProvider(event.target.value)}
        />
        {kind !== undefined && <Steps kind={kind} />}
      </div>
    </Dialog>
  )
}

function Steps({ kind: { provider, title, credentials } }: { kind: Kind }) {
  const file = credentialsFile(credentials)
  return (
    <>
      <p className="text-sm">
        Put the credentials of your {title} account into <Code text={file.name} />, readable only by you:
      </p>
      <ul className="flex list-disc flex-col gap-1 pl-5 text-sm">
        {credentials.map(({ name, help, optional }) => (
          <li key={name}>
            <Code text={name} />
            {optional === true && ' (optional)'}: <span className="text-muted">{help}</span>
          </li>
        ))}
      </ul>
      <CodeBlock label={`Contents of ${file.name}`} code={file.text} />
      <p className="text-sm">Then add the account under a name of your own, and check it:</p>
      <CodeBlock
        label="Commands to add an account"
        code={`berth operator providers create ${provider} main \\\n  --credentials ${file.name} --markup 20\nberth operator providers check main`}
      />
      <p className="text-sm text-muted">
        Credentials are stored encrypted and never shown again. Change the markup as you like: it is added to the cost.
      </p>
    </>
  )
}
