// Written by `npm run generate` from what the services say of themselves.

export namespace Ingest {
export interface paths {
    "/livez": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Say whether the process is to be restarted */
        get: operations["livez"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show the metrics, in Prometheus' text format */
        get: operations["render"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Say whether the process can do its work */
        get: operations["readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/contact-changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Pin, mute, block or delete a contact
         * @description The 202 means that it is on the log; `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done. Where the outcome is
         *     unknown, repeat it with the same `command_id` or `Idempotency-Key`. (Below rule version 4 a repeat takes the place of a change that was posted meanwhile, and one with `deleted` also covers messages
         *     that came meanwhile.) Refused as malformed below rule version 3.
         */
        post: operations["post_contact_change"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Post many events
         * @description Every line is answered in order, while the body is still being read; a bad line, or one in another's name (403), does not stop the
         *     rest. One that is above the caller's rate is answered 429, and none behind it is taken. The last line is `{"accepted":n,"rejected":m}`.
         *     Lines without an answer may be on the log: a message with a `client_msg_id`, a read-ack of a `mid` and a change can be posted again, a
         *     read-ack of `latest` would then also cover messages that came meanwhile. An edit, a contact change, a profile or a change of a group takes
         *     the place of what was posted since, so it is posted again before anything later is.
         */
        post: operations["post_events"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/groups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Begin a group
         * @description The 202 means that it is on the log; `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done. It may be repeated:
         *     a group that is as the body says already is left as it is. Refused as malformed below rule version 3.
         */
        post: operations["post_group"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/groups/{gid}/changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Change a group or its members
         * @description The 202 means that it is on the log; `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done, or why not: who asks
         *     may be no member, or have no right to it. Where the outcome is unknown, repeat it with the same `command_id` or `Idempotency-Key`. Below
         *     rule version 4 it may be repeated unless another change was posted meanwhile. Refused as malformed below rule version 3.
         */
        post: operations["post_group_change"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/message-changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Recall, edit or hide a message
         * @description The 202 means that it is on the log; `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done. Where the outcome is
         *     unknown, repeat it with the same `command_id` or `Idempotency-Key`. (Below rule version 4 an edit or a hide again is another change, and an edit takes the place of one that was posted meanwhile.) Refused as malformed below rule version 3.
         */
        post: operations["post_message_change"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a message
         * @description The 202 means that it is on the log. Repeat it with the same client_msg_id where the outcome is unknown.
         */
        post: operations["post_message"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/reactions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * React to a message
         * @description With an emoji, which replaces the user's former one, or with none, which takes that back. The 202 means that it is on the log;
         *     `GET /v1/inbound/{partition}/{offset}` of the query API says whether it was done. If the outcome is unknown, repeat it with the same
         *     `command_id` or `Idempotency-Key`. Refused as malformed below rule version 5.
         */
        post: operations["post_reaction"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/read-acks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Say how far a conversation was read
         * @description A position never goes back. One of `latest` means the newest message when it is sequenced. Where the outcome is unknown (503
         *     `/problems/unknown-outcome`, or no answer), repeat it with the same `command_id` or `Idempotency-Key`: it then covers nothing that came
         *     meanwhile. (Below rule version 4 it would.)
         */
        post: operations["post_read_ack"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{uid}/profile": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Set a profile
         * @description It replaces the earlier profile: a field that is absent here is absent afterwards. The 202 means that it is on the log; with `after=` the calls of the query
         *     API show it. Where the outcome is unknown, repeat it with the same `command_id` or `Idempotency-Key`. (Below rule version 4 it takes the place of one that was posted meanwhile.) Refused as malformed below rule
         *     version 3.
         */
        put: operations["put_profile"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description Where an accepted event is on `chat.inbound`; `after=<partition>:<offset>` of a query waits for it. */
        AcceptedBody: {
            /** @description The id of the send, given or generated; absent for all other events. */
            client_msg_id?: string | null;
            /** @description The id of any other command, given or generated. A repeat with it changes nothing (from rule version 4 on). */
            command_id?: string | null;
            /** @description The group that begins; absent for all other events. */
            gid?: string | null;
            /**
             * Format: int64
             * @description From 0.
             * @example 42
             */
            offset: number;
            /**
             * Format: int32
             * @description 0 to 63.
             * @example 17
             */
            partition: number;
        };
        /** @description "uid says this about the contact with peer." What is absent stays as it is; one member at least is not. */
        ContactChangeBody: {
            /** @description Whether what `peer` sends to `uid` is refused. */
            blocked?: boolean | null;
            /**
             * @description The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
             *     nor the header `Idempotency-Key` has one, it is generated and returned.
             */
            command_id?: string | null;
            /** @description `true`: the contact leaves the list until its next message, and what is in the conversation is read. */
            deleted?: boolean | null;
            /** @description Whether it is marked as a favourite. */
            favourite?: boolean | null;
            /** @description Whether `uid` wants no notifications. Messages are unread all the same. */
            muted?: boolean | null;
            /**
             * @description The other user.
             * @example 1001
             */
            peer: string;
            /**
             * @description Whether it is at the top of the list.
             * @example true
             */
            pinned?: boolean | null;
            /**
             * @description Whose contact it is.
             * @example 1000
             */
            uid: string;
        };
        /** @description One line of a batch: exactly one of its members. */
        EventBody: {
            contact_change?: components["schemas"]["ContactChangeBody"] | null;
            group?: components["schemas"]["GroupBody"] | null;
            group_change?: components["schemas"]["GroupChangeBody"] | null;
            message?: components["schemas"]["MessageBody"] | null;
            message_change?: components["schemas"]["MessageChangeBody"] | null;
            profile?: components["schemas"]["UserProfileBody"] | null;
            reaction?: components["schemas"]["ReactionBody"] | null;
            read_ack?: components["schemas"]["ReadAckBody"] | null;
        };
        /** @description One field at fault. */
        FieldError: {
            /** @description The field's path as the caller wrote it: `srcid`, `message.msg`, `items[3].mid`. */
            field: string;
            /** @description What was wrong and what is right: "is 0; must be …". */
            message: string;
        };
        /** @description One gate in the answer of `/readyz`. */
        GateStatus: {
            /** @description `<service>.<what>`, such as `ingest.kafka`. */
            name: string;
            /** @description Whether it is open. */
            ready: boolean;
            /** @description What it waits for, while it is not. */
            reason?: string | null;
            /** @description What an operator should change although it is open. */
            warning?: string | null;
        };
        /** @description A group that begins, with `owner` as its first member. */
        GroupBody: {
            /**
             * @description In place of gid: the owner's own id of this group, 1 to 64 bytes, best a UUIDv7. The gid is made of the two, so a repeat is the same
             *     group: 2^62 and the last 62 bits of the UUIDv5 of `<owner>/<client_id>` in the namespace 6f2b9c7e-54a1-4d0c-8a53-1e7dc0b9a2f4.
             */
            client_id?: string | null;
            /**
             * @description The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
             *     nor the header `Idempotency-Key` has one, it is generated and returned.
             */
            command_id?: string | null;
            /**
             * @description Its id, which only services choose: from 1, and below 2^62 under rule version 4. A number is taken up to 2^53. Where it exists
             *     already, and is another group, this is refused.
             * @example 5000
             */
            gid?: string | null;
            /**
             * @description The first members besides the owner, at most 1,000; more are added afterwards.
             * @example [
             *       "1001",
             *       "1002"
             *     ]
             */
            members?: string[];
            /**
             * @description 1 to 100 characters without control characters.
             * @example Lunch
             */
            name: string;
            /** @description Whether anybody may join. */
            open?: boolean;
            /**
             * @description Who begins it.
             * @example 1000
             */
            owner: string;
            /** @description Whether members see what was sent before they joined. */
            whole_history?: boolean;
        };
        /** @description "by asks for this in the group": exactly one of the members after `by`. */
        GroupChangeBody: {
            /**
             * @description An admin: who becomes a member, 1 to 1,000 users.
             * @example [
             *       "1003"
             *     ]
             */
            add?: string[] | null;
            /**
             * @description Who asks.
             * @example 1000
             */
            by: string;
            /**
             * @description The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
             *     nor the header `Idempotency-Key` has one, it is generated and returned.
             */
            command_id?: string | null;
            /** @description `true`, the owner: the group ends. */
            dissolve?: boolean | null;
            /**
             * @description In a batch; otherwise that of the path, or absent.
             * @example 5000
             */
            gid?: string | null;
            /** @description `true`: to become a member of an open group. */
            join?: boolean | null;
            /** @description `true`: to be no member any more. */
            leave?: boolean | null;
            mute?: components["schemas"]["MuteBody"] | null;
            options?: components["schemas"]["OptionsBody"] | null;
            /** @description An admin: who is no member any more, 1 to 1,000 users. */
            remove?: string[] | null;
            /** @description An admin: the name from here on. */
            rename?: string | null;
            role?: components["schemas"]["RoleBody"] | null;
            unmute?: components["schemas"]["MuteBody"] | null;
        };
        /** @description A text from one user to another, or to a group. */
        MessageBody: {
            /**
             * @description The sender's own id of this send, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it is the same message. If neither this field
             *     nor the header `Idempotency-Key` has one, it is generated and returned.
             */
            client_msg_id?: string | null;
            /**
             * @description The receiver; the sender too, in a note to oneself.
             * @example 1000
             */
            destid?: string | null;
            /** @description In place of destid: a group of which the sender is a member. */
            gid?: string | null;
            /**
             * @description 1 byte to 16 KiB (as configured) of UTF-8 without NUL.
             * @example hello
             */
            msg: string;
            /**
             * @description The sender: 1 to 9223372036854775807. A number is taken up to 2^53.
             * @example 1001
             */
            srcid: string;
        };
        /** @description "by changes message mid of the conversation with peer, or of the group." */
        MessageChangeBody: {
            /**
             * @description Who makes the change.
             * @example 1001
             */
            by: string;
            /**
             * @description The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
             *     nor the header `Idempotency-Key` has one, it is generated and returned.
             */
            command_id?: string | null;
            /** @description In place of peer: a group of which `by` is a member. Its admins recall and delete everybody's messages, at any time. */
            gid?: string | null;
            /**
             * @description `recall` takes its text away for both sides, `delete` the message as a whole (only where the rules allow it), `edit` gives it another
             *     text: these three are the author's. `hide` hides it from `by`, `clear` it and all before it.
             * @example recall
             */
            kind: string;
            /**
             * Format: int64
             * @description Which message, 1 or more, as a number or a string.
             * @example 3
             */
            mid: number;
            /** @description Of an edit only: the new text, as of a message. */
            msg?: string | null;
            /**
             * @description The other user of the conversation.
             * @example 1000
             */
            peer?: string | null;
        };
        /** @description Exactly one of the two. */
        MuteBody: {
            /** @description `true`: all but admins and the owner. */
            all?: boolean | null;
            /**
             * @description A member.
             * @example 1003
             */
            uid?: string | null;
        };
        /** @description One of the two at least. */
        OptionsBody: {
            /** @description Whether anybody may join. */
            open?: boolean | null;
            /** @description Whether members see what was sent before they joined. */
            whole_history?: boolean | null;
        };
        /** @description One refusal, in the shape of RFC 9457 plus the extensions that the crate's page names. */
        Problem: {
            /** @description The id to repeat a message with, where the outcome is unknown. */
            client_msg_id?: string | null;
            /** @description The id to repeat any other command with, where the outcome is unknown. */
            command_id?: string | null;
            /** @description What went wrong this time and what would be right. */
            detail: string;
            /** @description The fields at fault, where fields are at fault. */
            errors?: components["schemas"]["FieldError"][];
            /**
             * Format: int64
             * @description Seconds to wait before trying again, where trying again makes sense.
             */
            retry_after_s?: number | null;
            /**
             * Format: int32
             * @description The HTTP status, repeated so that a problem is complete on a line of NDJSON.
             */
            status: number;
            /** @description The same words for every problem of this type. */
            title: string;
            /**
             * @description Stable URI reference of what sort of problem this is.
             * @example /problems/invalid-field
             */
            type: string;
        };
        /** @description What others see of a user. It replaces the earlier profile: a field that is absent here is absent afterwards. */
        ProfileBody: {
            /**
             * @description An http or https URL of at most 1,024 bytes.
             * @example https://example.com/ann.png
             */
            avatar?: string | null;
            /**
             * @description The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither
             *     this field nor the header `Idempotency-Key` has an id, one is generated and returned.
             */
            command_id?: string | null;
            /** @description An object of at most 4,096 bytes and 32 levels, kept as it is. */
            extra?: Record<string, never> | null;
            /**
             * @description 1 to 64 characters without control characters.
             * @example Ann
             */
            nick: string;
        };
        /**
         * Format: binary
         * @description What descriptions call a body in protobuf.
         */
        ProtobufBody: string;
        /** @description "by reacts with emoji to message mid of the conversation with peer, or of the group." */
        ReactionBody: {
            /**
             * @description The user who reacts.
             * @example 1001
             */
            by: string;
            /**
             * @description The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
             *     nor the header `Idempotency-Key` has one, it is generated and returned.
             */
            command_id?: string | null;
            /**
             * @description One emoji, fully qualified, of at most 32 bytes. It replaces the user's former reaction to the message; an empty one takes that back.
             * @example 👍
             */
            emoji: string;
            /** @description In place of peer: a group of which `by` is a member. */
            gid?: string | null;
            /**
             * Format: int64
             * @description Which message, 1 or more, as a number or a string.
             * @example 3
             */
            mid: number;
            /**
             * @description The other user of the conversation.
             * @example 1000
             */
            peer?: string | null;
        };
        /** @description "uid, on this device class, has read the conversation with peer, or the group, up to mid." */
        ReadAckBody: {
            /**
             * @description The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
             *     nor the header `Idempotency-Key` has one, it is generated and returned.
             */
            command_id?: string | null;
            /**
             * @description `pc` or `mobile`.
             * @example mobile
             */
            device: string;
            /** @description In place of peer: a group of which the reader is a member. */
            gid?: string | null;
            /**
             * Format: int64
             * @description Up to which message, 1 or more, as a number or a string; absent or `latest` for everything sequenced so far.
             * @example 3
             */
            mid?: number | null;
            /**
             * @description Whose messages.
             * @example 1001
             */
            peer?: string | null;
            /**
             * @description Who read.
             * @example 1000
             */
            uid: string;
        };
        /** @description What `/readyz` answers. */
        Readiness: {
            /** @description The gates in the order of their making. */
            gates: components["schemas"]["GateStatus"][];
            /** @description Every gate is ready and the process is not failing. */
            ready: boolean;
        };
        /** @description One line of the answer: an accepted line, a refused one, or the summary at the end. */
        ResultLine: {
            /** @description Of a message, only where it was generated here. */
            client_msg_id?: string | null;
            /** @description Of any other command but the beginning of a group, only where it was generated here. */
            command_id?: string | null;
            /** @description Of a group that begins. */
            gid?: string | null;
            /**
             * Format: int32
             * @description The line's number, from 1; blank ones count.
             */
            line: number;
            /**
             * Format: int64
             * @description From 0.
             */
            offset: number;
            /**
             * Format: int32
             * @description 0 to 63.
             */
            partition: number;
            /**
             * Format: int32
             * @description 202.
             */
            status: number;
        } | (components["schemas"]["Problem"] & {
            /**
             * Format: int32
             * @description The line's number, from 1; blank ones count.
             */
            line: number;
        }) | {
            /**
             * Format: int64
             * @description How many lines were answered with 202.
             */
            accepted: number;
            /**
             * Format: int64
             * @description How many were answered with anything else.
             */
            rejected: number;
        };
        /** @description Whose role, and which. */
        RoleBody: {
            /**
             * @description `member`, `admin`, or `owner`, which gives the group away: `by` becomes an admin.
             * @example admin
             */
            role: string;
            /**
             * @description A member.
             * @example 1001
             */
            uid: string;
        };
        /** @description A profile in a batch. */
        UserProfileBody: {
            /**
             * @description An http or https URL of at most 1,024 bytes.
             * @example https://example.com/ann.png
             */
            avatar?: string | null;
            /**
             * @description The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If it is
             *     absent, an id is generated and returned.
             */
            command_id?: string | null;
            /** @description An object of at most 4,096 bytes and 32 levels, kept as it is. */
            extra?: Record<string, never> | null;
            /**
             * @description 1 to 64 characters without control characters.
             * @example Ann
             */
            nick: string;
            /**
             * @description Whose it is.
             * @example 1001
             */
            uid: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    livez: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It works, or waits for others. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            /** @description It cannot recover by itself; why. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
    render: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All of them. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            /** @description Where callers are authenticated: nothing valid says who calls. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Where callers are authenticated: it takes a service key with `admin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    readyz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It can. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Readiness"];
                };
            };
            /** @description It waits for something; for what. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Readiness"];
                };
            };
        };
    };
    post_contact_change: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller's own id of this command, 1 to 64 visible characters, taken as it is: `client_msg_id` of a message, `command_id` of everything else. Where the body has it, too, both are the same. */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        /** @description A change to a contact; in protobuf a `chat.v1.ChangeContact`. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["ContactChangeBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description It is on the log; in protobuf a `chat.v1.Accepted`. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedBody"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description A field, or the body, is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none that this call reads. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A field is right in form, but not taken: a text with words that are not accepted, `deleted` that is false, or an extra that is too large. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much is under way, or more than the caller may send at a time; nothing was done. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not done, or of unknown outcome: the problem's `type` tells. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_events: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description One event a line; in protobuf length-delimited `chat.v1.IngestEvent`. */
        requestBody: {
            content: {
                "application/x-ndjson": components["schemas"]["EventBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description One result a line, then a summary; in protobuf length-delimited `chat.v1.EventResult`. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": components["schemas"]["ResultLine"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description The header `Idempotency-Key`: each line has an id of its own. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body's declared length is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none of the two. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many batches are under way, or the caller sends too many requests. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_group: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller's own id of this command, 1 to 64 visible characters, taken as it is: `client_msg_id` of a message, `command_id` of everything else. Where the body has it, too, both are the same. */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        /** @description A group; in protobuf a `chat.v1.ChangeGroup` with `create` and a gid. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["GroupBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description It is on the log; in protobuf a `chat.v1.Accepted`. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedBody"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description A field, or the body, is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none that this call reads. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A field is right in form, but not taken: a text with words that are not accepted, `deleted` that is false, or an extra that is too large. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much is under way, or more than the caller may send at a time; nothing was done. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not done, or of unknown outcome: the problem's `type` tells. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_group_change: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller's own id of this command, 1 to 64 visible characters, taken as it is: `client_msg_id` of a message, `command_id` of everything else. Where the body has it, too, both are the same. */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /**
                 * @description The group.
                 * @example 5000
                 */
                gid: string;
            };
            cookie?: never;
        };
        /** @description A change; in protobuf a `chat.v1.ChangeGroup`, whose gid is that of the path or absent. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["GroupChangeBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description It is on the log; in protobuf a `chat.v1.Accepted`. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedBody"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description A field, or the body, is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none that this call reads. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A field is right in form, but not taken: a text with words that are not accepted, `deleted` that is false, or an extra that is too large. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much is under way, or more than the caller may send at a time; nothing was done. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not done, or of unknown outcome: the problem's `type` tells. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_message_change: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller's own id of this command, 1 to 64 visible characters, taken as it is: `client_msg_id` of a message, `command_id` of everything else. Where the body has it, too, both are the same. */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        /** @description A change to a message; in protobuf a `chat.v1.ChangeMessage`. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["MessageChangeBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description It is on the log; in protobuf a `chat.v1.Accepted`. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedBody"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description A field, or the body, is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none that this call reads. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A field is right in form, but not taken: a text with words that are not accepted, `deleted` that is false, or an extra that is too large. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much is under way, or more than the caller may send at a time; nothing was done. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not done, or of unknown outcome: the problem's `type` tells. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_message: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller's own id of this command, 1 to 64 visible characters, taken as it is: `client_msg_id` of a message, `command_id` of everything else. Where the body has it, too, both are the same. */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        /** @description A message; in protobuf a `chat.v1.SendMessage`. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["MessageBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description It is on the log; in protobuf a `chat.v1.Accepted`. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedBody"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description A field, or the body, is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none that this call reads. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A field is right in form, but not taken: a text with words that are not accepted, `deleted` that is false, or an extra that is too large. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much is under way, or more than the caller may send at a time; nothing was done. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not done, or of unknown outcome: the problem's `type` tells. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_reaction: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller's own id of this command, 1 to 64 visible characters, taken as it is: `client_msg_id` of a message, `command_id` of everything else. Where the body has it, too, both are the same. */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        /** @description A reaction; in protobuf a `chat.v1.ChangeMessage` of the kind `CHANGE_KIND_REACT`, whose `msg` is the emoji. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["ReactionBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description It is on the log; in protobuf a `chat.v1.Accepted`. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedBody"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description A field, or the body, is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none that this call reads. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A field is right in form, but not taken: a text with words that are not accepted, `deleted` that is false, or an extra that is too large. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much is under way, or more than the caller may send at a time; nothing was done. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not done, or of unknown outcome: the problem's `type` tells. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_read_ack: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller's own id of this command, 1 to 64 visible characters, taken as it is: `client_msg_id` of a message, `command_id` of everything else. Where the body has it, too, both are the same. */
                "Idempotency-Key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        /** @description A read position; in protobuf a `chat.v1.ReadAck`. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["ReadAckBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description It is on the log; in protobuf a `chat.v1.Accepted`. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedBody"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description A field, or the body, is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none that this call reads. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A field is right in form, but not taken: a text with words that are not accepted, `deleted` that is false, or an extra that is too large. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much is under way, or more than the caller may send at a time; nothing was done. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not done, or of unknown outcome: the problem's `type` tells. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    put_profile: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller's own id of this command, 1 to 64 visible characters, taken as it is: `client_msg_id` of a message, `command_id` of everything else. Where the body has it, too, both are the same. */
                "Idempotency-Key"?: string | null;
            };
            path: {
                /**
                 * @description Whose profile it is.
                 * @example 1001
                 */
                uid: string;
            };
            cookie?: never;
        };
        /** @description What others see of the user; in protobuf a `chat.v1.SetProfile`, whose uid is that of the path or absent. */
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProfileBody"];
                "application/x-protobuf": components["schemas"]["ProtobufBody"];
            };
        };
        responses: {
            /** @description It is on the log; in protobuf a `chat.v1.Accepted`. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedBody"];
                    "application/x-protobuf": components["schemas"]["ProtobufBody"];
                };
            };
            /** @description A field, or the body, is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The media type is none that this call reads. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description A field is right in form, but not taken: a text with words that are not accepted, `deleted` that is false, or an extra that is too large. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much is under way, or more than the caller may send at a time; nothing was done. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not done, or of unknown outcome: the problem's `type` tells. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
}

export namespace Query {
export interface paths {
    "/livez": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Say whether the process is to be restarted */
        get: operations["livez"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show the metrics, in Prometheus' text format */
        get: operations["render"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Say whether the process can do its work */
        get: operations["readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/groups/{gid}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read a group
         * @description Its settings, and what it has of the user who asks.
         */
        get: operations["get_group"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/groups/{gid}/changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List what was changed in a group
         * @description As in a conversation with a user. Changes of messages from before the user joined are left out, unless the group shows its whole history.
         */
        get: operations["get_group_changes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/groups/{gid}/members": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the members of a group
         * @description Those of a dissolved group are those whom it had in the end.
         */
        get: operations["get_group_members"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/groups/{gid}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the messages of a group
         * @description A page of its history. Members see what was sent since they joined, or all of it where the group's `whole_history` is set.
         */
        get: operations["get_group_messages"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/inbound/{partition}/{offset}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Say what became of a send
         * @description Or of a read-ack, or of a change: whatever ingest answered with 202. To users whom it does not concern it is not there. It concerns the two
         *     sides of a message, also where it recalls, edits or deletes one; of a read-ack its reader, of a hide, a clear and a change to a contact
         *     its author.
         */
        get: operations["get_inbound"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/profiles": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read profiles of several users
         * @description Every user may read everybody's. Of the caller's rate limit ten users take as much as a call.
         */
        get: operations["get_profiles"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{uid}/conversations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a user's conversations
         * @description Read positions are those of the contact and membership rows, which are about a second behind. Groups are in the list along with users. They are
         *     ordered by their newest message, which no row of the user has: of a user with fewer than 500 memberships all groups are read, of others the newest groups of
         *     the installation, by an index, until those of the page are among them. Where they are too rare, all groups of the user are read.
         */
        get: operations["get_conversations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{uid}/conversations/{peer}/changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List what was changed in a conversation
         * @description A device that has all messages of a conversation and all changes up to its `chg` and `own_pos` (see the list of conversations) has all of it.
         *     Changes are kept as long as the configuration says; a device that is further behind reads the messages again.
         */
        get: operations["get_changes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{uid}/conversations/{peer}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read a conversation
         * @description Its unread messages on one class of device, or a page of its history.
         */
        get: operations["get_messages"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{uid}/devices": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a user's devices
         * @description Only the user himself reads them, and services. A gateway keeps them while a device is connected; one that was not seen for 30 days is forgotten.
         */
        get: operations["get_devices"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{uid}/groups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a user's groups
         * @description Read positions are those of the membership rows, which are about a second behind.
         */
        get: operations["get_groups"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{uid}/profile": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read a profile
         * @description Every user may read everybody's.
         */
        get: operations["get_profile"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{uid}/sync": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Sync a device
         * @description What has changed for a user since a device asked last: every conversation and group that an event at or above the token has touched, as it is now, and the
         *     user's own profile where it was set since.
         *     Nothing is missed, and a row may come again. The device keeps `next` once it has stored the answer. Without a token, with one of another epoch, of a
         *     version of Tidemark that is not known here, one that is ahead of the log (of another installation), or one from before what is remembered of groups left (30 days), everything is returned. The call waits until
         *     every store that it reads has what the token covers. An `unread` of null means that the count is not known yet: `/unread` waits for it.
         */
        get: operations["get_sync"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{uid}/unread": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Count a user's unread messages
         * @description Where Redis does not have the user, the counts are rebuilt first; where it is down, or takes nothing new although the log goes on, they come from MySQL. They
         *     are whole or not answered.
         *     Of 500 senders or more, the counts of two may be of different moments, all of them after the call.
         */
        get: operations["get_unread"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description A number for each class of device. */
        ByClass_Option_i64: {
            mobile: null | number;
            pc: null | number;
        };
        /** @description A number for each class of device. */
        ByClass_i64: {
            /** Format: int64 */
            mobile: number;
            /** Format: int64 */
            pc: number;
        };
        /** @description A change to a message, or to what the user sees of the conversation. */
        ChangeItem: {
            /**
             * Format: int64
             * @description Its number among the changes of the conversation: 1, 2, 3 … From rule version 4 on a hide and a clear have none: 0.
             * @example 1
             */
            chg: number;
            /**
             * @description `recall`, `edit`, `delete` (a recall after which the message is not shown at all), `hide` or `clear` (both for the user only), or `react`.
             * @example recall
             */
            kind: string;
            /**
             * Format: int64
             * @description The message; of a clear the newest that is cleared.
             * @example 3
             */
            mid: number;
            /**
             * @description Of an edit the newest text of the message, which may be that of a later edit. Absent where the message was recalled since, or the
             *     user does not see it any more.
             */
            msg?: string | null;
            /**
             * Format: int64
             * @description Of one without a number: where it is in `chat.events`.
             * @example 57
             */
            own_pos?: number | null;
            /**
             * @description Of the page's last reaction to a message: the emoji of each user who has reacted to the message by now, by uid. Absent as `msg` is.
             * @example {
             *       "1001": "👍"
             *     }
             */
            reactions?: {
                [key: string]: string;
            } | null;
            /**
             * @description When, UTC.
             * @example 2025-11-21T08:01:00.123Z
             */
            ts: string;
        };
        /** @description Changes of one conversation. */
        ChangesPage: {
            /**
             * @description With `after=`: how far the stores had come, by partition.
             * @example [
             *       "17:45"
             *     ]
             */
            as_of?: string[] | null;
            /**
             * Format: int64
             * @description Of a group: up to this message it shows the user nothing, who joined behind it; 0 where it shows its whole history.
             * @example 2
             */
            begins_after_mid?: number | null;
            /**
             * @description The changes, by number, then what the user has hidden and cleared without one, in the order of the log. What other users hide and clear is left out, and of a group what concerns messages from before
             *     joining, so a page may hold fewer than `limit`; only `next` tells whether it is the last.
             */
            items: components["schemas"]["ChangeItem"][];
            /**
             * @description The parameter that goes on where this page ends; null where nothing is left.
             * @example after_chg=1
             */
            next?: string | null;
        };
        /** @description One conversation. */
        ConversationItem: components["schemas"]["Flags"] & {
            /**
             * Format: int64
             * @description The number of its last change, which its list of changes has; 0 where there is none.
             * @example 1
             */
            chg: number;
            /**
             * @description The group; absent between two users.
             * @example 5000
             */
            gid?: string | null;
            last?: components["schemas"]["MessageItem"] | null;
            /**
             * Format: int64
             * @description The number of its newest message; 0 where there is none.
             * @example 3
             */
            last_mid: number;
            /**
             * @description The group's name.
             * @example Lunch
             */
            name?: string | null;
            /**
             * Format: int64
             * @description Where in `chat.events` the user has hidden or cleared something last that has no number; absent where that never was.
             * @example 57
             */
            own_pos?: number | null;
            /**
             * @description The other side; the user in a note to oneself. Absent in a group.
             * @example 1001
             */
            peer?: string | null;
            /** @description Up to where the user has read, by class of device. */
            read_mid: components["schemas"]["ByClass_i64"];
            /** @description Unread messages of the other side, or in the group, by class of device; null where they cannot be counted any more. */
            unread: components["schemas"]["ByClass_Option_i64"];
        };
        /** @description A part of a user's conversation list. */
        ConversationsPage: {
            /**
             * @description With `after=`: how far the stores had come, by partition.
             * @example [
             *       "17:45"
             *     ]
             */
            as_of?: string[] | null;
            /**
             * @description Pinned conversations first, then that with the newest message. Contacts that the user has deleted, and contacts and groups without
             *     messages, are left out. A page may hold fewer than `limit`; only `next` tells whether it is the last.
             */
            items: components["schemas"]["ConversationItem"][];
            /**
             * @description `cursor` of the next page; null where nothing is left.
             * @example AgAAAAGapVWYewAAAAAAAAPp0NMkeHGdR8Y
             */
            next?: string | null;
            /** @description With `profiles=true`: by user; users who have set none are left out. */
            profiles?: {
                [key: string]: components["schemas"]["ProfileItem"];
            } | null;
        };
        /** @description A device. */
        DeviceItem: {
            /**
             * @description `pc` or `mobile`.
             * @example mobile
             */
            class: string;
            /**
             * @description Its own id.
             * @example phone-1
             */
            device: string;
            /**
             * @description What the user calls it; may be empty.
             * @example Ann's phone
             */
            name: string;
            /**
             * @description When it had handled what its token covers, UTC.
             * @example 2025-11-21T08:00:00.123Z
             */
            seen_at: string;
            /**
             * @description Its newest token, with which a device that has lost its own goes on: `since` of a sync.
             * @example AQAAAAABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
             */
            token: string;
        };
        /** @description A user's devices. */
        Devices: {
            /** @description Those seen last, up to 100, the newest first. */
            items: components["schemas"]["DeviceItem"][];
        };
        /** @description One field at fault. */
        FieldError: {
            /** @description The field's path as the caller wrote it: `srcid`, `message.msg`, `items[3].mid`. */
            field: string;
            /** @description What was wrong and what is right: "is 0; must be …". */
            message: string;
        };
        /** @description What a user has set for a contact, as every answer shows it. */
        Flags: {
            /** @description The peer cannot send to the user. */
            blocked: boolean;
            /** @description Marked as a favourite. */
            favourite: boolean;
            /** @description No notifications; unread messages count all the same. */
            muted: boolean;
            /** @description Shown at the top of the user's list. */
            pinned: boolean;
        };
        /** @description One gate in the answer of `/readyz`. */
        GateStatus: {
            /** @description `<service>.<what>`, such as `ingest.kafka`. */
            name: string;
            /** @description Whether it is open. */
            ready: boolean;
            /** @description What it waits for, while it is not. */
            reason?: string | null;
            /** @description What an operator should change although it is open. */
            warning?: string | null;
        };
        /** @description A group. */
        GroupAnswer: {
            /**
             * @description With `after=`: how far the store had come, by partition.
             * @example [
             *       "17:45"
             *     ]
             */
            as_of?: string[] | null;
            /**
             * Format: int64
             * @description The number of its last change of a message; 0 where there is none.
             * @example 1
             */
            chg: number;
            /** @description It has ended. Who was a member then reads it on. */
            dissolved: boolean;
            /**
             * @description The group.
             * @example 5000
             */
            gid: string;
            /**
             * Format: int64
             * @description The number of its newest message; 0 where there is none.
             * @example 9
             */
            last_mid: number;
            /** @description What the group has of the user who asks. */
            member: components["schemas"]["MemberItem"];
            /**
             * Format: int64
             * @description How many members there are; 0 once it is dissolved.
             * @example 3
             */
            member_count: number;
            /** @description Only admins and the owner send. */
            muted: boolean;
            /**
             * @description Its name.
             * @example Lunch
             */
            name: string;
            /** @description Anybody may join. */
            open: boolean;
            /**
             * @description Its owner.
             * @example 1000
             */
            owner: string;
            /** @description Members see what was sent before they joined. */
            whole_history: boolean;
        };
        /** @description A group, as one of its members has it. */
        GroupItem: {
            /**
             * @description Its last event, in `chat.events`.
             * @example 8:41
             */
            at: string;
            /**
             * Format: int64
             * @description The number of its last change of a message; 0 where there is none.
             * @example 1
             */
            chg: number;
            /** @description It has ended. Who was a member then reads it on. */
            dissolved: boolean;
            /**
             * @description The group.
             * @example 5000
             */
            gid: string;
            /**
             * Format: int64
             * @description The number of the newest message when the user joined; 0 where there was none.
             * @example 0
             */
            join_mid: number;
            last?: components["schemas"]["MessageItem"] | null;
            /**
             * Format: int64
             * @description The number of its newest message; 0 where there is none.
             * @example 9
             */
            last_mid: number;
            /**
             * Format: int64
             * @description How many members there are; 0 once it is dissolved.
             * @example 3
             */
            member_count: number;
            /** @description Whether the user is muted, and does not send. */
            muted: boolean;
            /**
             * @description Its name.
             * @example Lunch
             */
            name: string;
            /**
             * Format: int64
             * @description Where in `chat.events` the user has hidden or cleared something last that has no number; absent where that never was.
             * @example 57
             */
            own_pos?: number | null;
            /** @description Up to where nothing counts as unread, by class of device: read, sent, cleared, or there before the user joined. */
            read_mid: components["schemas"]["ByClass_i64"];
            /**
             * @description The user's role: `member`, `admin` or `owner`.
             * @example member
             */
            role: string;
            /** @description Unread messages, by class of device. */
            unread: components["schemas"]["ByClass_i64"];
            /** @description Whether the user sees what was sent before joining. */
            whole_history: boolean;
        };
        /** @description Members of a group. */
        GroupMembersPage: {
            /**
             * @description With `after=`: how far the store had come, by partition.
             * @example [
             *       "17:45"
             *     ]
             */
            as_of?: string[] | null;
            /** @description The members, by uid. */
            items: components["schemas"]["MemberItem"][];
            /**
             * @description `cursor` of the next page; null where nothing is left.
             * @example 1002
             */
            next?: string | null;
        };
        /** @description A part of a user's groups. */
        GroupsPage: {
            /**
             * @description With `after=`: how far the stores had come, by partition.
             * @example [
             *       "17:45"
             *     ]
             */
            as_of?: string[] | null;
            /**
             * @description The groups, by gid. Those that the user has left are left out, so a page may hold fewer than `limit`; only `next` tells whether it is
             *     the last.
             */
            items: components["schemas"]["GroupItem"][];
            /**
             * @description `cursor` of the next page; null where nothing is left.
             * @example 5000
             */
            next?: string | null;
        };
        /** @description What became of a record of `chat.inbound`. */
        InboundOutcome: components["schemas"]["Outcome"] & {
            /**
             * Format: int64
             * @description As asked.
             * @example 42
             */
            offset: number;
            /**
             * Format: int32
             * @description As asked: 0 to 63.
             * @example 17
             */
            partition: number;
        };
        /** @description A member of a group. */
        MemberItem: {
            /**
             * Format: int64
             * @description The number of the newest message when the user joined; 0 where there was none.
             * @example 3
             */
            join_mid: number;
            /** @description Does not send. */
            muted: boolean;
            /**
             * @description `member`, `admin` or `owner`.
             * @example member
             */
            role: string;
            /**
             * @description The user.
             * @example 1001
             */
            uid: string;
        };
        /** @description A message. */
        MessageItem: {
            /**
             * @description The sender's own id of the send; null where `msg` is only the first 200 characters.
             * @example 0199f3c0-7a54-7cc1-a4fb-2d2a3c1b9f10
             */
            client_msg_id?: string | null;
            /**
             * @description The receiver; absent in a group.
             * @example 1000
             */
            destid?: string | null;
            /**
             * @description When it was last edited, UTC; absent where it never was, and where `msg` is only the first 200 characters.
             * @example 2025-11-21T08:01:00.123Z
             */
            edited_ts?: string | null;
            /**
             * @description The group; absent between two users.
             * @example 5000
             */
            gid?: string | null;
            /**
             * Format: int64
             * @description Its number in the conversation: 1, 2, 3 …
             * @example 3
             */
            mid: number;
            /**
             * @description The newest text; empty where the message was recalled. As the newest message of a list only its first 200 characters where it is a group's, in `/sync`, and where the message itself is no longer (or not yet) stored.
             * @example hello
             */
            msg: string;
            /**
             * @description The emoji of each user who has reacted, by uid; absent if there is none, and if `msg` is only the first 200 characters.
             * @example {
             *       "1001": "👍"
             *     }
             */
            reactions?: {
                [key: string]: string;
            } | null;
            /** @description Whether it was recalled; absent where not. */
            recalled?: boolean | null;
            /**
             * @description The sender.
             * @example 1001
             */
            srcid: string;
            /**
             * @description When it was sequenced, UTC.
             * @example 2025-11-21T08:00:00.123Z
             */
            ts: string;
        };
        /** @description Messages of one conversation. */
        MessagesPage: {
            /**
             * @description With `after=`: how far the stores had come, by partition.
             * @example [
             *       "17:45"
             *     ]
             */
            as_of?: string[] | null;
            /**
             * Format: int64
             * @description Of a group: up to this message it shows the user nothing, who joined behind it; 0 where it shows its whole history.
             * @example 2
             */
            begins_after_mid?: number | null;
            /**
             * @description The messages, ordered as the parameters say. Those that the user has hidden or cleared, or that were deleted, are left out, so a page
             *     may hold fewer than `limit`; only `next` tells whether it is the last.
             */
            items: components["schemas"]["MessageItem"][];
            /**
             * @description The parameter that goes on where this page ends, `before_mid=…` or `after_mid=…`; null where nothing is left.
             * @example before_mid=3
             */
            next?: string | null;
            /** @description With `profiles=true`: by user; users who have set none are left out. */
            profiles?: {
                [key: string]: components["schemas"]["ProfileItem"];
            } | null;
        };
        /** @description What became of it: `state` says which of these. */
        Outcome: {
            /** @enum {string} */
            state: "pending";
        } | {
            /**
             * @description `lo,hi`, or `g:` and the gid of a group.
             * @example 1000,1001
             */
            conversation: string;
            /**
             * Format: int64
             * @description The offset of the message in the same partition of `chat.events`.
             * @example 57
             */
            events_offset: number;
            /**
             * Format: int64
             * @description The number.
             * @example 3
             */
            mid: number;
            /** @enum {string} */
            state: "sequenced";
            /**
             * @description When it was sequenced, UTC.
             * @example 2025-11-21T08:00:00.123Z
             */
            ts: string;
        } | {
            /** @description The id that both messages have; absent for other commands. */
            client_msg_id?: string | null;
            /** @description The id that both commands have; absent for messages, and for hiding and clearing, which need none. */
            command_id?: string | null;
            /**
             * @description `lo,hi`, or `g:` and the gid of a group; absent for a profile and for rules.
             * @example 1000,1001
             */
            conversation?: string | null;
            /**
             * Format: int64
             * @description The offset of its event in the same partition of `chat.events`; absent where `of_offset` is.
             * @example 57
             */
            events_offset?: number | null;
            /**
             * Format: int64
             * @description Of a message, that number; null where it is neither among the newest 4,096 events before the repeat nor stored (in a group: not among these), or not among the sender's newest 1,000 in the conversation.
             * @example 3
             */
            of_mid?: number | null;
            /**
             * Format: int64
             * @description The offset, in the same partition of `chat.inbound`, of the one that holds; absent where that is not among the newest 4,096 events before the repeat.
             * @example 40
             */
            of_offset?: number | null;
            /** @enum {string} */
            state: "repeat";
        } | (components["schemas"]["Reader"] & {
            /**
             * Format: int64
             * @description The offset of the move in the same partition of `chat.events`.
             * @example 57
             */
            events_offset: number;
            /**
             * Format: int64
             * @description Up to where, which may be below what was asked for.
             * @example 3
             */
            mid: number;
            /**
             * @description When, UTC.
             * @example 2025-11-21T08:00:00.123Z
             */
            ts: string;
        } & {
            /** @enum {string} */
            state: "read_position_moved";
        }) | (components["schemas"]["Reader"] & {
            /** @enum {string} */
            state: "read_position_kept";
        }) | {
            /**
             * Format: int64
             * @description Its number among the changes of the conversation; 0 of a hide or a clear from rule version 4 on, which have none.
             * @example 1
             */
            chg: number;
            /**
             * @description `lo,hi`, or `g:` and the gid of a group.
             * @example 1000,1001
             */
            conversation: string;
            /**
             * Format: int64
             * @description The offset of the change in the same partition of `chat.events`.
             * @example 57
             */
            events_offset: number;
            /**
             * @description `recall`, `edit`, `delete`, `hide`, `clear` or `react`.
             * @example recall
             */
            kind: string;
            /**
             * Format: int64
             * @description The message.
             * @example 3
             */
            mid: number;
            /** @enum {string} */
            state: "message_changed";
            /**
             * @description When, UTC.
             * @example 2025-11-21T08:00:00.123Z
             */
            ts: string;
        } | (components["schemas"]["Flags"] & {
            /** @description Whether the contact left the list, until its next message. */
            deleted: boolean;
            /**
             * Format: int64
             * @description The offset of the change in the same partition of `chat.events`.
             * @example 57
             */
            events_offset: number;
            /**
             * @description The other user.
             * @example 1001
             */
            peer: string;
            /**
             * @description When, UTC.
             * @example 2025-11-21T08:00:00.123Z
             */
            ts: string;
            /**
             * @description Whose contact it is.
             * @example 1000
             */
            uid: string;
        } & {
            /** @enum {string} */
            state: "contact_changed";
        }) | {
            /**
             * Format: int64
             * @description The offset of the profile in the same partition of `chat.events`.
             * @example 57
             */
            events_offset: number;
            /** @enum {string} */
            state: "profile_set";
            /**
             * @description When, UTC.
             * @example 2025-11-21T08:00:00.123Z
             */
            ts: string;
            /**
             * @description Whose it is.
             * @example 1000
             */
            uid: string;
        } | {
            /**
             * @description On what.
             * @example mobile
             */
            device: string;
            /**
             * Format: int64
             * @description The offset of the move in the same partition of `chat.events`.
             * @example 57
             */
            events_offset: number;
            /**
             * @description The group.
             * @example 5000
             */
            gid: string;
            /**
             * Format: int64
             * @description Up to where, which may be below what was asked for.
             * @example 3
             */
            mid: number;
            /** @enum {string} */
            state: "group_read_position_moved";
            /**
             * @description When, UTC.
             * @example 2025-11-21T08:00:00.123Z
             */
            ts: string;
            /**
             * @description Who read.
             * @example 1000
             */
            uid: string;
        } | {
            /**
             * Format: int64
             * @description The offset of the change in the same partition of `chat.events`.
             * @example 57
             */
            events_offset: number;
            /**
             * @description The group.
             * @example 5000
             */
            gid: string;
            /**
             * @description `create`, `add`, `remove`, `join`, `leave`, `role`, `rename`, `mute`, `unmute`, `options` or `dissolve`.
             * @example add
             */
            kind: string;
            /**
             * Format: int64
             * @description How many members there are from there on; 0 once it is dissolved.
             * @example 3
             */
            member_count: number;
            /** @enum {string} */
            state: "group_changed";
            /**
             * @description When, UTC.
             * @example 2025-11-21T08:00:00.123Z
             */
            ts: string;
        } | {
            /**
             * @description `lo,hi`, or `g:` and the gid of a group.
             * @example 1000,1001
             */
            conversation: string;
            /** @enum {string} */
            state: "without_effect";
        } | {
            /**
             * @description `lo,hi`, or `g:` and the gid of a group.
             * @example 1000,1001
             */
            conversation: string;
            /** @enum {string} */
            state: "no_event";
        } | {
            /**
             * Format: int64
             * @description The offset of the change in the same partition of `chat.events`.
             * @example 57
             */
            events_offset: number;
            /** @enum {string} */
            state: "rules_changed";
            /**
             * @description When, UTC.
             * @example 2025-11-21T08:00:00.123Z
             */
            ts: string;
        } | {
            /** @description Why, for people. */
            detail: string;
            /**
             * @description Why: `malformed`, `wrong-partition`, `too-large`, `conflict`, `invalid-control`, `too-many-conversations`, `blocked`,
             *     `unknown-message`, `not-the-author`, `too-late`, `too-old`, `recalled` or `not-allowed`; in a group also `unknown-group`, `group-exists`, `not-a-member`, `no-right`, `muted`, `group-full`, `dissolved`, `wrong-gid`, `too-many-memberships` or `has-left`.
             * @example conflict
             */
            reason: string;
            /** @enum {string} */
            state: "refused";
        } | {
            /** @enum {string} */
            state: "expired";
        };
        /** @description What others see of the user. */
        OwnProfile: components["schemas"]["ProfileItem"] & {
            /**
             * @description Its event, in `chat.events`: an earlier one of a gateway is older than this.
             * @example 40:7
             */
            at: string;
        };
        /** @description One refusal, in the shape of RFC 9457 plus the extensions that the crate's page names. */
        Problem: {
            /** @description The id to repeat a message with, where the outcome is unknown. */
            client_msg_id?: string | null;
            /** @description The id to repeat any other command with, where the outcome is unknown. */
            command_id?: string | null;
            /** @description What went wrong this time and what would be right. */
            detail: string;
            /** @description The fields at fault, where fields are at fault. */
            errors?: components["schemas"]["FieldError"][];
            /**
             * Format: int64
             * @description Seconds to wait before trying again, where trying again makes sense.
             */
            retry_after_s?: number | null;
            /**
             * Format: int32
             * @description The HTTP status, repeated so that a problem is complete on a line of NDJSON.
             */
            status: number;
            /** @description The same words for every problem of this type. */
            title: string;
            /**
             * @description Stable URI reference of what sort of problem this is.
             * @example /problems/invalid-field
             */
            type: string;
        };
        /** @description What others see of a user. */
        ProfileItem: {
            /**
             * @description An http or https URL; absent where there is none.
             * @example https://example.com/ann.png
             */
            avatar?: string | null;
            /** @description A JSON object, as it was posted; absent where there is none. */
            extra?: Record<string, never> | null;
            /**
             * @description The name.
             * @example Ann
             */
            nick: string;
            /**
             * @description When it was set, UTC.
             * @example 2025-11-21T08:00:00.123Z
             */
            ts: string;
        };
        /** @description Profiles of several users. */
        Profiles: {
            /**
             * @description With `after=`: how far the stores had come, by partition.
             * @example [
             *       "41:45"
             *     ]
             */
            as_of?: string[] | null;
            /** @description By user; users who have set none are left out. */
            profiles: {
                [key: string]: components["schemas"]["ProfileItem"];
            };
        };
        /** @description Whose read position. */
        Reader: {
            /**
             * @description On what.
             * @example mobile
             */
            device: string;
            /**
             * @description Whose messages.
             * @example 1001
             */
            peer: string;
            /**
             * @description Who read.
             * @example 1000
             */
            uid: string;
        };
        /** @description What `/readyz` answers. */
        Readiness: {
            /** @description The gates in the order of their making. */
            gates: components["schemas"]["GateStatus"][];
            /** @description Every gate is ready and the process is not failing. */
            ready: boolean;
        };
        /** @description What has changed for a user since a token. */
        SyncAnswer: {
            /** @description Conversations with users in which something has changed, as they are now. Of the newest message they have the first 200 characters, and no `client_msg_id`. */
            conversations: components["schemas"]["SyncedConversation"][];
            /**
             * @description Whether this is everything that the user has, not only what has changed. All pages of one answer say the same: what none of them has, the
             *     device drops.
             */
            full: boolean;
            /** @description Groups of the user in which something has changed, as they are now. */
            groups: components["schemas"]["GroupItem"][];
            /**
             * @description Groups that the user has left, or was removed from. None in a full answer.
             * @example [
             *       "5001"
             *     ]
             */
            left: string[];
            /** @description Whether this is a page of an answer: the next call, with `next`, goes on with it. */
            more: boolean;
            /**
             * @description `since` of the next call. At most 512 characters while a partition has less than 2^40 events.
             * @example AQAAAAABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
             */
            next: string;
            profile?: components["schemas"]["OwnProfile"] | null;
            /** @description With `profiles=true`: by user; users who have set none are left out. */
            profiles?: {
                [key: string]: components["schemas"]["ProfileItem"];
            } | null;
        };
        /** @description A conversation between two users. */
        SyncedConversation: components["schemas"]["ConversationItem"] & {
            /**
             * @description Its last event, in `chat.events`. Absent for a row that an older version wrote.
             * @example 8:41
             */
            at?: string | null;
            /** @description The user has deleted the contact, and there is no newer message: lists leave it out. Absent where not. */
            deleted?: boolean | null;
            /**
             * Format: int64
             * @description How many messages the other side has sent: a device counts on from here by the `n` of events.
             * @example 2
             */
            peer_n: number;
        };
        /** @description A user's unread messages on one class of device. */
        UnreadAnswer: {
            /**
             * @description With `after=`: how far the store had come, by partition.
             * @example [
             *       "17:45"
             *     ]
             */
            as_of?: string[] | null;
            /**
             * @description The class.
             * @example pc
             */
            device: string;
            /**
             * Format: int64
             * @description The sum of `unread`.
             * @example 3
             */
            total: number;
            /**
             * @description The receiver.
             * @example 1000
             */
            uid: string;
            /**
             * @description Senders whose unread messages cannot be counted any more, because what was read last is no longer stored. Absent where there are none.
             * @example [
             *       "1002"
             *     ]
             */
            unknown?: string[] | null;
            /**
             * @description How many, by sender; nobody is at zero.
             * @example {
             *       "1001": 3
             *     }
             */
            unread: {
                [key: string]: number;
            };
        };
        /** @description A user's profile. */
        UserProfile: components["schemas"]["ProfileItem"] & {
            /**
             * @description With `after=`: how far the stores had come, by partition.
             * @example [
             *       "41:45"
             *     ]
             */
            as_of?: string[] | null;
            /**
             * @description As asked.
             * @example 1001
             */
            uid: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    livez: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It works, or waits for others. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            /** @description It cannot recover by itself; why. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
    render: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All of them. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            /** @description Where callers are authenticated: nothing valid says who calls. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Where callers are authenticated: it takes a service key with `admin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    readyz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It can. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Readiness"];
                };
            };
            /** @description It waits for something; for what. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Readiness"];
                };
            };
        };
    };
    get_group: {
        parameters: {
            query: {
                /**
                 * @description The member who asks.
                 * @example 1000
                 */
                uid: string;
                /**
                 * @description `<partition>:<offset>` of a 202: the answer reflects at least this event; or a device's token, for what that covers. May be repeated, up to 64
                 *     times.
                 * @example [
                 *       "17:42"
                 *     ]
                 */
                after?: string[];
                /** @description How long the call may take, milliseconds; 5000 where absent. */
                timeout_ms?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The group.
                 * @example 5000
                 */
                gid: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The group. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GroupAnswer"];
                };
            };
            /** @description A parameter is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such group, or the user is no member of it. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many calls are under way, or too many of the caller's. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description MySQL does not answer. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The event of `after=` was not stored in time. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_group_changes: {
        parameters: {
            query: {
                /**
                 * @description The member who asks.
                 * @example 1000
                 */
                uid: string;
                /** @description Those above this number; all where absent. */
                after_chg?: number;
                /** @description Of what the user has hidden and cleared without a number: what is behind this offset in `chat.events`; all where absent. */
                after_own_pos?: number;
                /** @description How many at most; 50 where absent. */
                limit?: number;
                /**
                 * @description `<partition>:<offset>` of a 202: the answer reflects at least this event; or a device's token, for what that covers. May be repeated, up to 64
                 *     times.
                 * @example [
                 *       "17:42"
                 *     ]
                 */
                after?: string[];
                /** @description How long the call may take, milliseconds; 5000 where absent. */
                timeout_ms?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The group.
                 * @example 5000
                 */
                gid: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The changes; none is not an error. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangesPage"];
                };
            };
            /** @description A parameter is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such group, or the user is no member of it. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many calls are under way, or too many of the caller's. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description MySQL does not answer. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The event of `after=` was not stored in time. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_group_members: {
        parameters: {
            query: {
                /**
                 * @description The member who asks.
                 * @example 1000
                 */
                uid: string;
                /** @description How many at most; 50 where absent. */
                limit?: number;
                /** @description `next` of the page before, as it came. */
                cursor?: string;
                /**
                 * @description `<partition>:<offset>` of a 202: the answer reflects at least this event; or a device's token, for what that covers. May be repeated, up to 64
                 *     times.
                 * @example [
                 *       "17:42"
                 *     ]
                 */
                after?: string[];
                /** @description How long the call may take, milliseconds; 5000 where absent. */
                timeout_ms?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The group.
                 * @example 5000
                 */
                gid: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The members. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GroupMembersPage"];
                };
            };
            /** @description A parameter is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such group, or the user is no member of it. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many calls are under way, or too many of the caller's. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description MySQL does not answer. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The event of `after=` was not stored in time. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_group_messages: {
        parameters: {
            query: {
                /**
                 * @description The member who asks.
                 * @example 1000
                 */
                uid: string;
                /** @description Those below this number, newest first. */
                before_mid?: number;
                /** @description Those above this number, oldest first. */
                after_mid?: number;
                /** @description How many at most; 50 where absent. */
                limit?: number;
                /** @description Whether the answer has the profiles of the senders in it, as of now: `true` or `false`. */
                profiles?: boolean;
                /**
                 * @description `<partition>:<offset>` of a 202: the answer reflects at least this event; or a device's token, for what that covers. May be repeated, up to 64
                 *     times.
                 * @example [
                 *       "17:42"
                 *     ]
                 */
                after?: string[];
                /** @description How long the call may take, milliseconds; 5000 where absent. */
                timeout_ms?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The group.
                 * @example 5000
                 */
                gid: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The messages; none is not an error. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessagesPage"];
                };
            };
            /** @description A parameter is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such group, or the user is no member of it. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many calls are under way, or too many of the caller's. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description MySQL does not answer. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The event of `after=` was not stored in time. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_inbound: {
        parameters: {
            query?: {
                /** @description How long the call may take, milliseconds; 5000 where absent. */
                timeout_ms?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The partition, 0 to 63.
                 * @example 17
                 */
                partition: number;
                /**
                 * @description The offset, from 0.
                 * @example 42
                 */
                offset: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description What became of it. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InboundOutcome"];
                };
            };
            /** @description A parameter is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description There is no such record yet, or it does not concern the user who asks. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many calls are under way, or too many of the caller's. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Kafka or MySQL do not answer. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The log could not be read far enough in time. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_profiles: {
        parameters: {
            query?: {
                /**
                 * @description The users, up to 100: with commas between them, or the parameter repeated.
                 * @example [
                 *       "1000,1001"
                 *     ]
                 */
                uid?: string[];
                /**
                 * @description `<partition>:<offset>` of a 202: the answer reflects at least this event; or a device's token, for what that covers. May be repeated, up to 64
                 *     times.
                 * @example [
                 *       "41:42"
                 *     ]
                 */
                after?: string[];
                /** @description How long the call may take, milliseconds; 5000 where absent. */
                timeout_ms?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Those that there are; none is not an error. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Profiles"];
                };
            };
            /** @description A parameter is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many calls are under way, or too many of the caller's. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description MySQL does not answer. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The event of `after=` was not stored in time. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_conversations: {
        parameters: {
            query?: {
                /** @description How many at most; 50 where absent. */
                limit?: number;
                /** @description `next` of the page before, as it came. */
                cursor?: string;
                /** @description Whether the answer has the profiles of the users in it, as of now: `true` or `false`. */
                profiles?: boolean;
                /**
                 * @description `<partition>:<offset>` of a 202: the answer reflects at least this event; or a device's token, for what that covers. May be repeated, up to 64
                 *     times.
                 * @example [
                 *       "17:42"
                 *     ]
                 */
                after?: string[];
                /** @description How long the call may take, milliseconds; 5000 where absent. */
                timeout_ms?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The user.
                 * @example 1000
                 */
                uid: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The conversations; none is not an error. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConversationsPage"];
                };
            };
            /** @description A parameter is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many calls are under way, or too many of the caller's. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description MySQL does not answer. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The event of `after=` was not stored in time. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_changes: {
        parameters: {
            query?: {
                /** @description Those above this number; all where absent. */
                after_chg?: number;
                /** @description Of what the user has hidden and cleared without a number: what is behind this offset in `chat.events`; all where absent. */
                after_own_pos?: number;
                /** @description How many at most; 50 where absent. */
                limit?: number;
                /**
                 * @description `<partition>:<offset>` of a 202: the answer reflects at least this event; or a device's token, for what that covers. May be repeated, up to 64
                 *     times.
                 * @example [
                 *       "17:42"
                 *     ]
                 */
                after?: string[];
                /** @description How long the call may take, milliseconds; 5000 where absent. */
                timeout_ms?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The user who asks.
                 * @example 1000
                 */
                uid: string;
                /**
                 * @description The other side; the same in a note to oneself.
                 * @example 1001
                 */
                peer: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The changes; none is not an error. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangesPage"];
                };
            };
            /** @description A parameter is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many calls are under way, or too many of the caller's. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description MySQL does not answer. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The event of `after=` was not stored in time. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_messages: {
        parameters: {
            query?: {
                /**
                 * @description Those above the user's read position on this class, newest first, at most a month old: `pc` or `mobile`.
                 * @example pc
                 */
                device?: string;
                /** @description Those below this number, newest first. */
                before_mid?: number;
                /** @description Those above this number, oldest first. */
                after_mid?: number;
                /** @description How many at most: 50 where absent, with `device` 200. */
                limit?: number;
                /** @description Whether the answer has the profiles of the users in it, as of now: `true` or `false`. */
                profiles?: boolean;
                /**
                 * @description `<partition>:<offset>` of a 202: the answer reflects at least this event; or a device's token, for what that covers. May be repeated, up to 64
                 *     times.
                 * @example [
                 *       "17:42"
                 *     ]
                 */
                after?: string[];
                /** @description How long the call may take, milliseconds; 5000 where absent. */
                timeout_ms?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The user who asks.
                 * @example 1000
                 */
                uid: string;
                /**
                 * @description The other side; the same in a note to oneself.
                 * @example 1001
                 */
                peer: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The messages; none is not an error. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessagesPage"];
                };
            };
            /** @description A parameter is not as it should be, or does not go with another. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many calls are under way, or too many of the caller's. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description MySQL does not answer. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The event of `after=` was not stored in time. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_devices: {
        parameters: {
            query?: {
                /** @description How long the call may take, milliseconds; 5000 where absent. */
                timeout_ms?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The user.
                 * @example 1000
                 */
                uid: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The devices; none is not an error. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Devices"];
                };
            };
            /** @description A parameter is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many calls are under way, or too many of the caller's. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description MySQL does not answer. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description MySQL did not answer in time. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_groups: {
        parameters: {
            query?: {
                /** @description How many at most; 100 where absent. */
                limit?: number;
                /** @description `next` of the page before, as it came. */
                cursor?: string;
                /**
                 * @description `<partition>:<offset>` of a 202: the answer reflects at least this event; or a device's token, for what that covers. May be repeated, up to 64
                 *     times.
                 * @example [
                 *       "17:42"
                 *     ]
                 */
                after?: string[];
                /** @description How long the call may take, milliseconds; 5000 where absent. */
                timeout_ms?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The user.
                 * @example 1000
                 */
                uid: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The groups; none is not an error. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GroupsPage"];
                };
            };
            /** @description A parameter is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many calls are under way, or too many of the caller's. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description MySQL does not answer. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The event of `after=` was not stored in time. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_profile: {
        parameters: {
            query?: {
                /**
                 * @description `<partition>:<offset>` of a 202: the answer reflects at least this event; or a device's token, for what that covers. May be repeated, up to 64
                 *     times.
                 * @example [
                 *       "41:42"
                 *     ]
                 */
                after?: string[];
                /** @description How long the call may take, milliseconds; 5000 where absent. */
                timeout_ms?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The user.
                 * @example 1000
                 */
                uid: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The profile. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserProfile"];
                };
            };
            /** @description A parameter is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The user has set none. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many calls are under way, or too many of the caller's. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description MySQL does not answer. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The event of `after=` was not stored in time. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_sync: {
        parameters: {
            query?: {
                /** @description `next` of the answer before, or the token of a gateway, as it came. Absent: everything. */
                since?: string;
                /** @description How many conversations, groups and groups left at most; 200 where absent. */
                limit?: number;
                /** @description Whether the answer has the profiles of the users in it, as of now: `true` or `false`. */
                profiles?: boolean;
                /** @description How long the call may take, milliseconds; 5000 where absent. */
                timeout_ms?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The user.
                 * @example 1000
                 */
                uid: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description What has changed; nothing is not an error. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SyncAnswer"];
                };
            };
            /** @description A parameter is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many calls are under way, or too many of the caller's. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description MySQL does not answer. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What the token covers was not stored in time: try again. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_unread: {
        parameters: {
            query: {
                /**
                 * @description `pc` or `mobile`.
                 * @example pc
                 */
                device: string;
                /**
                 * @description `<partition>:<offset>` of a 202: the answer reflects at least this event; or a device's token, for what that covers. May be repeated, up to 64
                 *     times.
                 * @example [
                 *       "17:42"
                 *     ]
                 */
                after?: string[];
                /** @description How long the call may take, milliseconds; 5000 where absent. */
                timeout_ms?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The user.
                 * @example 1000
                 */
                uid: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The counts. Reading them renews the user's expiry. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UnreadAnswer"];
                };
            };
            /** @description A parameter is not as it should be. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Nothing valid says who calls; `WWW-Authenticate` says what was wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The caller may not do this in this user's name, or the service key lacks the scope. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many calls are under way, or too many of the caller's; or the counts of a user with very many senders, which are read for all calls together, were not read in time. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The counts are being rebuilt, or the stores are down. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The event of `after=` was not counted in time. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
}

export namespace Gateway {
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
            /** @description Of a reaction: the emoji of `by` from now on; empty if the former one is taken back. */
            emoji?: string;
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
        /** @description The command of the frame with this `ref` is on `chat.inbound`, at this position. */
        "gateway.accepted": {
            at: components["schemas"]["At"];
            ref: string;
            /** @enum {string} */
            type: "accepted";
        };
        /**
         * @description What the device sent is no frame, and is not `refused`, since it has no `ref` or none that can be read; the connection goes on, but for a first
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
        /** @description The command of the frame with this `ref` is not done, for this reason. With `retry` it may be sent again, the same with the same `client_msg_id`. */
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
}
