/** Nobody can log into a machine that was made while the account had no SSH key. */
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { TextLink } from '../../ui/button.tsx'
import { Notice } from '../../ui/notice.tsx'

export function NoSshKey() {
  const mayRead = [useMay('compute:read'), useMay('keys')].includes(true)
  const keys = useCall('listSshKeys', {}, { enabled: mayRead })
  if (keys.data === undefined || keys.data.sshKeys.length > 0) return null
  return (
    <Notice tone="warn">
      The account has no SSH key, and without one nobody could log in. <TextLink to="/ssh-keys">Add a key</TextLink>{' '}
      first.
    </Notice>
  )
}
