// Written by `npm run generate` from the description of gateway.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * @description A position in a log: partition and offset.
         * @example 17:42
         */
        At: string;
        ChangeBody: {
            by: components["schemas"]["Id"];
            /**
             * Format: int64
             * @description 0 of a hide or a clear from rule version 4 on: they have no number among the changes of the conversation.
             */
            chg: number;
            gid?: components["schemas"]["Id"];
            kind: string;
            /** Format: int64 */
            mid: number;
            msg?: string;
            /**
             * Format: int64
             * @description Of a clear, as of a read position.
             */
            n?: number;
            peer?: components["schemas"]["Id"];
            ts: components["schemas"]["Time"];
        };
        ContactBody: {
            blocked: boolean;
            /**
             * Format: int64
             * @description The newest message when the contact was deleted with this change.
             */
            deleted_mid?: number;
            /**
             * Format: int64
             * @description How many messages the peer had sent up to there.
             */
            deleted_n?: number;
            favourite: boolean;
            muted: boolean;
            peer: components["schemas"]["Id"];
            pinned: boolean;
            uid: components["schemas"]["Id"];
        };
        /** @description A device of a user. */
        Device: {
            class: components["schemas"]["DeviceClass"];
            /** @description Its own id; no two devices of a user have the same. */
            id: components["schemas"]["ShortId"];
            /** @description For people. */
            name?: string;
        };
        /**
         * @description A class of devices; a user has a read position on each.
         * @enum {string}
         */
        DeviceClass: "pc" | "mobile";
        GroupChangeBody: {
            by: components["schemas"]["Id"];
            dissolved: boolean;
            gid: components["schemas"]["Id"];
            kind: string;
            /** Format: int64 */
            last_mid: number;
            /** Format: int64 */
            member_count: number;
            /** @description Of those whom the change names at most sixteen; the device's own user is among them where it names him. */
            members: components["schemas"]["MemberBody"][];
            /**
             * Format: int32
             * @description How many more it names; absent where it names no more.
             */
            members_omitted?: number;
            muted: boolean;
            name: string;
            open: boolean;
            owner: components["schemas"]["Id"];
            whole_history: boolean;
        };
        /**
         * @description A user or a group: 63 bits, more than a number of JavaScript has. From a device a number up to 2^53 is taken, too.
         * @example 1000
         */
        Id: string;
        MemberBody: {
            joined: boolean;
            muted: boolean;
            /** @description `null` for who is no member any more. */
            role: string | null;
            uid: components["schemas"]["Id"];
        };
        MessageBody: {
            client_msg_id: string;
            destid?: components["schemas"]["Id"];
            gid?: components["schemas"]["Id"];
            /** Format: int64 */
            mid: number;
            msg: string;
            /**
             * Format: int64
             * @description Its number among those of the sender; absent in a group.
             */
            n?: number;
            srcid: components["schemas"]["Id"];
            ts: components["schemas"]["Time"];
        };
        ProfileBody: {
            avatar?: string;
            extra?: Record<string, never>;
            nick: string;
            uid: components["schemas"]["Id"];
        };
        ReadBody: {
            device: components["schemas"]["DeviceClass"];
            gid?: components["schemas"]["Id"];
            /** Format: int64 */
            mid: number;
            /**
             * Format: int64
             * @description How many messages the peer had sent up to there; absent where that is not known, and in a group.
             */
            n?: number;
            peer?: components["schemas"]["Id"];
            uid: components["schemas"]["Id"];
        };
        /**
         * @description The id that a device has chosen for itself.
         * @example phone-1
         */
        ShortId: string;
        /**
         * Format: date-time
         * @description A time: RFC 3339 in UTC.
         */
        Time: string;
        /** @description What the user looks at, in place of what it was before. At most one of `peer` and `gid` is there. */
        "device.focus": {
            gid?: components["schemas"]["Id"] | null;
            peer?: components["schemas"]["Id"] | null;
            /** @enum {string} */
            type: "focus";
        };
        /** @description The first frame: which device it is, and its token, if it has one. */
        "device.hello": {
            device: components["schemas"]["Device"];
            /**
             * @description Its token. Where the field is absent the device has lost its token and not what it knows: it goes on from the one that was kept for it. Null: it
             *     knows nothing.
             */
            since?: string | null;
            /** @enum {string} */
            type: "hello";
        };
        /** @description The answer to a ping: everything before it is handled. */
        "device.pong": {
            /** @enum {string} */
            type: "pong";
        };
        /** @description A read-ack. One of `peer` and `gid` is there. */
        "device.read": {
            gid?: components["schemas"]["Id"] | null;
            /**
             * Format: int64
             * @description The newest message that is read.
             */
            mid: number;
            peer?: components["schemas"]["Id"] | null;
            ref: string;
            /** @enum {string} */
            type: "read";
        };
        /** @description After `sync_required`: the token of the sync's last answer. */
        "device.resume": {
            since: string;
            /** @enum {string} */
            type: "resume";
        };
        /** @description A message. One of `to` and `gid` is there. */
        "device.send": {
            /** @description The author's own id of this send: with the same one it is the same message. 1 to 64 bytes of UTF-8 without control characters. */
            client_msg_id: string;
            gid?: components["schemas"]["Id"] | null;
            /** @description The text: UTF-8 without NUL, at most 16,384 bytes of it where the operator has set no other limit (`ingest.max_msg_bytes`). */
            msg: string;
            /** @description Of the device's own choice; answers have it. */
            ref: string;
            to?: components["schemas"]["Id"] | null;
            /** @enum {string} */
            type: "send";
        };
        /** @description The user types. One of `to` and `gid` is there. */
        "device.typing": {
            gid?: components["schemas"]["Id"] | null;
            to?: components["schemas"]["Id"] | null;
            /** @enum {string} */
            type: "typing";
        };
        /** @description A send or a read is on `chat.inbound`, at this position. */
        "gateway.accepted": {
            at: components["schemas"]["At"];
            ref: string;
            /** @enum {string} */
            type: "accepted";
        };
        /**
         * @description What the device sent is no frame, nor a send or a read whose `ref` can be read, which is refused; the connection goes on, but for a first
         *     frame that is no `hello`.
         */
        "gateway.error": {
            detail: string;
            /** @enum {string} */
            type: "error";
        };
        /** @description Something has happened. The device's token moves behind `at`. */
        "gateway.event": {
            /** @description Its position in `chat.events`. */
            at: components["schemas"]["At"];
            message: components["schemas"]["MessageBody"];
            /** @enum {string} */
            type: "event";
        } | {
            /** @description Its position in `chat.events`. */
            at: components["schemas"]["At"];
            read_position: components["schemas"]["ReadBody"];
            /** @enum {string} */
            type: "event";
        } | {
            /** @description Its position in `chat.events`. */
            at: components["schemas"]["At"];
            message_change: components["schemas"]["ChangeBody"];
            /** @enum {string} */
            type: "event";
        } | {
            /** @description Its position in `chat.events`. */
            at: components["schemas"]["At"];
            group_change: components["schemas"]["GroupChangeBody"];
            /** @enum {string} */
            type: "event";
        } | {
            /** @description Its position in `chat.events`. */
            at: components["schemas"]["At"];
            contact_change: components["schemas"]["ContactBody"];
            /** @enum {string} */
            type: "event";
        } | {
            /** @description Its position in `chat.events`. */
            at: components["schemas"]["At"];
            profile: components["schemas"]["ProfileBody"];
            /** @enum {string} */
            type: "event";
        };
        /** @description How far a group has come, in place of messages and changes that did not fit: from `at` to `until`. */
        "gateway.head": {
            at: components["schemas"]["At"];
            /**
             * Format: int64
             * @description The last change among them; 0 where there is none.
             */
            chg: number;
            gid: components["schemas"]["Id"];
            /**
             * Format: int64
             * @description The newest message among them, or that was changed.
             */
            mid: number;
            /**
             * Format: int64
             * @description The newest message of the user's own among them; 0 where there is none.
             */
            own_mid: number;
            /** @enum {string} */
            type: "head";
            until: components["schemas"]["At"];
        };
        /** @description A token that covers everything before it; none before the stream begins. The device answers `pong`. */
        "gateway.ping": {
            token?: string;
            /** @enum {string} */
            type: "ping";
        };
        /** @description Whether the user that the device looks at is connected. */
        "gateway.presence": {
            /** @description Of the devices that are. */
            classes?: components["schemas"]["DeviceClass"][];
            /** @description Of a user who is not: when he was seen last, if that is known. */
            last_seen?: components["schemas"]["Time"];
            /** @description `null` where that is not known, or not to be told. */
            online: boolean | null;
            /** @enum {string} */
            type: "presence";
            uid: components["schemas"]["Id"];
        };
        /** @description The gateway ends: connect again in so many milliseconds. */
        "gateway.reconnect": {
            /** Format: int64 */
            after_ms: number;
            /** @enum {string} */
            type: "reconnect";
        };
        /** @description A send or a read is not done, for this reason. With `retry` it may be sent again, the same with the same `client_msg_id`. */
        "gateway.refused": {
            detail: string;
            /**
             * @description For good: `invalid-field`, `unprocessable-field` (words that are not taken), `forbidden`; or as decided on the log: `malformed`, `too-large`,
             *     `conflict` (the `client_msg_id` is of another message), `too-many-conversations`, `blocked`, `unknown-group`, `not-a-member`, `muted`,
             *     `dissolved`. For the moment, with `retry`: `too-many-under-way`, `too-many-requests`, `rate-limited`, `unavailable`, `unknown-outcome`,
             *     `internal`. A later version may have others.
             */
            reason: string;
            ref: string;
            retry?: boolean;
            /** @enum {string} */
            type: "refused";
        };
        /** @description Another connection of the device, or of its class, has taken its place. */
        "gateway.replaced": {
            /** @enum {string} */
            type: "replaced";
        };
        /** @description A send has its number. A repeat has that of the first one, which is not said where that was long ago. */
        "gateway.sent": {
            /** Format: int64 */
            mid?: number;
            ref: string;
            ts?: components["schemas"]["Time"];
            /** @enum {string} */
            type: "sent";
        };
        /**
         * @description The device has to sync over HTTP, in so many milliseconds at the earliest, and then to say `resume`. The token is the one that was kept for a
         *     device that has none: it syncs from there. Pings come as after `welcome`.
         */
        "gateway.sync_required": {
            /** Format: int64 */
            after_ms: number;
            /** Format: int32 */
            ping_seconds: number;
            token?: string;
            /** @enum {string} */
            type: "sync_required";
        };
        /** @description A user types, to this one or into a group. */
        "gateway.typing": {
            from: components["schemas"]["Id"];
            gid?: components["schemas"]["Id"];
            to?: components["schemas"]["Id"];
            /** @enum {string} */
            type: "typing";
        };
        /**
         * @description The stream begins, with what the device missed: `resumed` is true, since who cannot resume has to sync. A ping comes at the latest every
         *     `ping_seconds`: a device that hears nothing for longer, and some seconds, has lost its connection.
         */
        "gateway.welcome": {
            /**
             * Format: int32
             * @description Bytes a second, likewise.
             */
            bytes_per_s: number;
            /**
             * Format: int32
             * @description Frames a second that the user's devices may send together, in the long run, and for ten seconds' worth at once; beyond it they are
             *     closed (4003).
             */
            frames_per_s: number;
            /** Format: int32 */
            ping_seconds: number;
            resumed: boolean;
            token: string;
            /** @enum {string} */
            type: "welcome";
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
