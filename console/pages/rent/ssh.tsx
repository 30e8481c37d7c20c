/** Warns that nobody can log in to a machine that is created while the account has no SSH key. */
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
      You cannot log in without an SSH key. <TextLink to="/ssh-keys">Add an SSH key</TextLink> first.
    </Notice>
  )
}
